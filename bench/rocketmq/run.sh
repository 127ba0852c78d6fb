#!/bin/bash
# Baseline of Apache RocketMQ 5.4.0 transactional messages, from a clean state:
# jars (Maven) -> namesrv + broker -> bench -> stop.  Everything stays under this folder.
#   ./run.sh                        full plan
#   REPS=1 N=2000 WARM=500 GN=600 NB=1000 LONG=5000 ./run.sh     a quick try
# Needs: JDK 17, mvn, bash. As root it runs in a network namespace of its own (only lo); NETNS=0 turns that off.
set -u
D=$(cd "$(dirname "$0")" && pwd); cd "$D"
REPS=${REPS:-3}; N=${N:-20000}; WARM=${WARM:-5000}; GN=${GN:-6000}; RATE=${RATE:-200}; NB=${NB-"5000 20000"}
BS=${BS:-"256 1024"}; PS=${PS:-"1 8 32"}; LONG=${LONG:-100000}; OUT=${OUT:-$D/results.csv}; NETNS=${NETNS:-1}
MAXOTHER=${MAXOTHER:-5}     # a run in which other processes used more than this % of the machine (all cores) is put aside and made again
VER=5.4.0

fetch() {   # jars from Maven Central into lib/ (own local repository, so nothing else is touched)
  if [ ! -f lib/.ok-$VER ]; then
    rm -rf lib && mvn -q -B -Dmaven.repo.local="$D/m2" -f pom.xml dependency:copy-dependencies -DoutputDirectory="$D/lib" || exit 1
    touch lib/.ok-$VER
  fi
  rm -rf classes conf && mkdir conf && javac -cp 'lib/*' -d classes TxBench.java || exit 1
  for x in broker namesrv client; do   # the release's own log settings, one for each kind of process
    (cd conf && jar xf ../lib/rocketmq-$x-$VER.jar rmq.$x.logback.xml) || exit 1
  done
}

JOPT="-Duser.home=$D -Djava.net.preferIPv4Stack=true -XX:+UseG1GC -XX:MaxDirectMemorySize=1g
 --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED
 --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED"
lb() { echo "-Drmq.logback.configurationFile=$D/conf/rmq.$1.logback.xml"; }
NSPID= BPID=
start() {   # $1 = broker config
  local k
  rm -rf store namesrv logs; mkdir -p store logs; { cat "$1"; echo "storePathRootDir=$D/store"; } > broker-run.conf
  export ROCKETMQ_HOME="$D"; unset NAMESRV_ADDR
  java $JOPT $(lb namesrv) -Xms512m -Xmx512m -cp 'lib/*' org.apache.rocketmq.namesrv.NamesrvStartup -c namesrv.conf >logs/namesrv.out 2>&1 & NSPID=$!
  java $JOPT $(lb broker) -Xms1g -Xmx1g -cp 'lib/*' org.apache.rocketmq.broker.BrokerStartup -c broker-run.conf >logs/broker.out 2>&1 & BPID=$!
  for k in $(seq 60); do
    grep -q 'boot success' logs/broker.out && grep -q 'boot success' logs/namesrv.out && break
    kill -0 $BPID 2>/dev/null || { echo "broker did not start"; cat logs/*.out; stop; exit 1; }
    sleep 0.5
  done
  # heat the broker's own JIT once (not recorded)
  OUT=/dev/null MAXOTHER=1000 bench mode=full n=$N p=8 b=256 rep=0 grace=60 quiet=8 >/dev/null
}
stop() {
  local p k
  for p in $BPID $NSPID; do kill "$p" 2>/dev/null; done
  for k in $(seq 60); do { [ -n "$BPID" ] && kill -0 $BPID 2>/dev/null; } || { [ -n "$NSPID" ] && kill -0 $NSPID 2>/dev/null; } || break; sleep 0.5; done
  for p in $BPID $NSPID; do kill -9 "$p" 2>/dev/null; done
  wait 2>/dev/null; NSPID= BPID=
}
calm() {   # wait (at most 2 min) until the machine is less than 15 % of one core busy over 2 s
  local k a b
  for k in $(seq 60); do
    a=($(head -1 /proc/stat)); sleep 2; b=($(head -1 /proc/stat))
    [ $(( (b[1]+b[2]+b[3]+b[6]+b[7]) - (a[1]+a[2]+a[3]+a[6]+a[7]) )) -lt 30 ] && return
  done
}
bench() {
  local try rc
  for try in 1 2 3 4; do
    [ "$OUT" = /dev/null ] || calm
    java $JOPT $(lb client) -Xms1g -Xmx1g -cp 'classes:lib/*' TxBench run bpid=$BPID out="$OUT" warm=$WARM maxother=$MAXOTHER "$@" 2>>client.err
    rc=$?
    [ $rc = 9 ] || break
  done
  [ $rc = 0 ] || { echo "  (exit $rc)"; tail -5 client.err; }
}
problems() {  # $1 = phase: what broker and client logged in the phase just ended, and what an idle broker costs
  echo "-- phase $1: lines in the logs with"
  local w c0 c1
  for w in 'broker busy' 'system busy' 'Check transaction. real' 'the producer commit the message' 'checked too many times' 'OutOfMemory' 'RejectedExecution'; do
    printf '   %-36s %s\n' "$w" "$(find logs -type f ! -name '*.gz' -print0 | xargs -0 cat | grep -c "$w")"
  done
  c0=$(awk '{print $14+$15}' /proc/$BPID/stat); sleep 20; c1=$(awk '{print $14+$15}' /proc/$BPID/stat)
  echo "   idle broker (no client), CPU s in 20 s  $(awk "BEGIN{print ($c1-$c0)/100}")"
  echo "   store on disk  $(du -sh store | cut -f1)"
}

inner() {
  trap stop EXIT
  trap 'exit 1' INT TERM
  # (a) commit at once, broker's default check settings
  start broker.conf
  for r in $(seq $REPS); do for b in $BS; do for p in $PS; do
    bench mode=full n=$N p=$p b=$b rep=$r grace=1
  done; done; done
  for r in $(seq $REPS); do for b in $BS; do
    bench mode=gentle n=$GN rate=$RATE p=8 b=$b rep=$r grace=1
  done; done
  for r in $(seq $REPS); do   # the same, long enough for the client's JIT to settle too
    bench mode=full n=$LONG p=32 b=256 rep=$r grace=1 variant=long
  done
  problems a; stop
  [ -n "$NB" ] || { trap - EXIT; return; }
  # (b) UNKNOWN, decided by the broker's check
  { cat broker.conf; echo transactionTimeOut=1000; echo transactionCheckInterval=1000; } > broker-check.conf
  start broker-check.conf
  for n in $NB; do for r in $(seq $REPS); do
    bench mode=check n=$n p=8 b=256 rep=$r grace=60 quiet=8
  done; done
  problems b; stop
  # (b2) the same with the broker writing its op records each 200 ms instead of each 3000 ms (fewer second checks)
  { cat broker-check.conf; echo transactionOpBatchInterval=200; } > broker-check-op.conf
  start broker-check-op.conf
  for n in $NB; do for r in $(seq $REPS); do
    bench mode=check n=$n p=8 b=256 rep=$r grace=60 quiet=8 variant=op200
  done; done
  problems b2; stop
  trap - EXIT
}

if [ "${1:-}" = inner ]; then inner; exit; fi
fetch
rm -f client.err
for f in "$OUT" "$OUT.noisy"; do [ -f "$f" ] && mv "$f" "$f.$(date +%s).old"; done
if [ "$NETNS" = 1 ] && unshare -n true 2>/dev/null; then
  export REPS N WARM GN RATE NB BS PS LONG OUT MAXOTHER
  unshare -n bash -c 'ip link set lo up; exec bash "$0" inner' "$D/run.sh"
else
  inner
fi
java -cp 'classes:lib/*' TxBench sum "$OUT" | tee "${OUT%.csv}-summary.txt"
