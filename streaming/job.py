"""The whole job: Spark, the query, and the check service beside it."""

import contextlib
import logging
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from checkback.exceptions import CheckbackError, KafkaLostError, KafkaUnreachableError, TakenOverError
from checkback.kafka.kafka_python.errors import passes
from checkback.kafka.kafka_python.library import KafkaError
from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.library import AdminClient, KafkaException
from checkback.kafka.librdkafka.topics import topic_ids
from checkback.operations.topics import TopicAdministration
from checkers import Announced, CheckService
from conf import Settings
from streaming import trial
from streaming.access.policy_in_force import PolicyFile, PolicyInForce
from streaming.batch.batch import BatchReport
from streaming.batch.failpoints import FailpointHook, no_failpoint
from streaming.brokers.client import SinkSettings
from streaming.brokers.retrying import retrying
from streaming.checkpoint.ends_in_plan import EndsInPlan
from streaming.checkpoint.folder import Checkpoint, CheckpointFacts
from streaming.checkpoint.half_logs import HalfLogs
from streaming.checkpoint.place import on_this_machine
from streaming.executors import try_executors
from streaming.fairness.fairness import Fairness, StateCount
from streaming.fairness.held_back import HeldBackWatch, named_writer
from streaming.folders import folder_at
from streaming.idle_wait import IdleWait
from streaming.later.forwarding import Forwarder
from streaming.observing.audit import AuditTrail, refusals
from streaming.observing.executors_now import ExecutorsNow
from streaming.observing.job_group import CheckersGroup, JobGroup
from streaming.observing.observation import ChecksStanding, Observation
from streaming.observing.serving import Serving
from streaming.ownership.claim import Claim, Owner
from streaming.ownership.clock import compared_clock, wall_ms
from streaming.ownership.fence import any_has
from streaming.ownership.preconditions import BatchPreconditions
from streaming.progress_reports import ProgressReports, refuse_dropped_rows
from streaming.python_worker.early_start import start_workers_early
from streaming.query import outcome_frame, start_query
from streaming.session import build_session, stop_session
from streaming.settings_in_force import BatchSettings, judged_rules
from streaming.sink import ExactlyOnceSink
from streaming.stateful.policies import policy_of
from streaming.stops import essence, explained
from streaming.tables import destinations_of, publisher_of
from streaming.takeover import Clock, TakeOver, facts_of

_LOGGER = logging.getLogger(__name__)
_STOP_SECONDS = 18
_CHECKS_STOP_SECONDS = 4


class TransactionJob:
    """Runs until stopped; use it as a context manager.

    A run on the same checkpoint is taken over: it stops at its next batch. ``new_checkpoint`` allows a checkpoint on
    topics that another one has read until now.

    Raises on entry:
        ConfigurationError, CheckpointMismatchError: settings, topics and checkpoint do not fit together. Nothing
            has been read or written then, and a job that runs on the checkpoint continues.
        JobFailedError: something is away that may be back later. Likewise, unless Kafka goes away in the midst of it.
    """

    def __init__(
        self,
        settings: Settings,
        observer: Callable[[BatchReport], None] | None = None,
        spark: SparkSession | None = None,
        failpoint: FailpointHook = no_failpoint,
        *,
        new_checkpoint: bool = False,
    ) -> None:
        self._settings, self._failpoint, self._observer = settings, failpoint, observer
        self._new_checkpoint = new_checkpoint
        self._given_spark = spark
        self._preconditions: BatchPreconditions | None = None
        self._sink: ExactlyOnceSink | None = None
        self._fairness: Fairness | None = None
        self._policy: PolicyInForce | None = None
        self._trail: AuditTrail | None = None
        self._observation = Observation(settings)
        self._executors = ExecutorsNow(self._observation.metrics.executors)
        self._serving = Serving(settings, self._observation)
        self._job_group: JobGroup | None = None
        self._query: StreamingQuery | None = None
        self._idle: IdleWait | None = None
        self._reports = ProgressReports()
        self._checks: CheckService | None = None
        self._forwarder: Forwarder | None = None
        self._beside = contextlib.ExitStack()
        """Stops what works beside the query."""
        self._rest = contextlib.ExitStack()
        """Stops and closes what the query stands on."""
        self._kept = contextlib.ExitStack()
        """Stops what outlives a query: Spark, and the page."""
        self._runs: set[str] = set()
        """As which this job has had the topics."""

    def start(self) -> Self:
        """Check everything, then start the query and, if the settings say so, the check service."""
        policy_of(self._settings.transactions)  # raises on a class of the user's that cannot be used
        # py4j logs what a callback raises with its whole stack; the job says it in one sentence
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        try:
            self._start_explained()
        except BaseException:
            self.stop()
            raise
        return self

    def start_again(self) -> None:
        """After a :class:`KafkaLostError`: start the query again; page, check service and Spark have gone on.

        Raises:
            KafkaLostError: Kafka still does not answer.
            TakenOverError: another job has taken over meanwhile.
            CheckbackError: see :meth:`start`.
        """
        self._new_checkpoint, self._query, self._job_group = False, None, None
        self._beside.close()
        self._rest.close()
        try:
            self._start_explained()
        except (KafkaUnreachableError, KafkaError) as error:
            if isinstance(error, KafkaError) and not passes(error):
                raise
            raise KafkaLostError(str(error) or repr(error)) from error
        self._observation.kafka_away_ms = None

    def _start_explained(self) -> None:
        try:
            self._start()
        except (KafkaException, PySparkException, Py4JError, OSError) as error:
            raise explained(error, self._settings) from error

    def _start(self) -> None:
        """Take over as late as possible: a start that fails leaves the run before at work.

        1. Settings, topics, clock and checkpoint fit together, and the topics are not another checkpoint's. What can be
           known without Spark comes first.
        2. All that can be tried without taking over: tables, the check service, the ways into Kafka.
        3. Take over. From now on the run before ends.
        4. Start.
        """
        settings, sink = self._settings, SinkSettings.of(self._settings, self._failpoint)
        step = self._observation.start_up.step
        step("look at settings, topics and clock")
        access, local_query_id = trial.usable(settings, sink), trial.try_folder(settings.job.checkpoint)
        checks = self._check_service()
        half_partitions = self._checked_topics(sink)
        clock = compared_clock(sink, settings.job.clock_tolerance)
        claim = self._rest.enter_context(contextlib.closing(Claim(sink)))
        admin, topics, retry = make_client(AdminClient, sink.client()), [sink.topics.half, sink.topics.op], retrying()
        ids = retry(topic_ids, admin, topics)
        self._judge_at_once(claim, local_query_id, its_half := ids.get(sink.topics.half, ""))
        trial.try_facts(settings.job.checkpoint, facts := facts_of(settings, half_partitions, ids))
        step("start Java and Spark")
        spark = self._given_spark or self._own_spark(sink)
        step("read the checkpoint")
        checkpoint = self._fitting_checkpoint(spark, claim, facts)  # 1
        own = Owner(checkpoint.query_id(), settings.job.name, its_half, page=self._serving.url)
        partitions, now = settings.job.state_partitions, Clock(wall_ms(), settings.job.clock_tolerance)
        take_over = TakeOver(checkpoint, own, now, sink, claim, partitions)
        take_over.judge(new_checkpoint=self._new_checkpoint)  # 2
        in_kafka = partial(any_has, sink, own.query_id, partitions)
        folder = folder_at(spark, settings.job.checkpoint)
        rules = judged_rules(settings, folder, partial(in_kafka, settled=False), checkpoint.torn)
        step("try what a batch needs of Kafka and of tables")
        tables = destinations_of(settings, spark, rules, retry(admin.list_topics, sink.topics.half, 10.0).cluster_id)
        trial.try_source(spark, settings)
        trial.try_transaction(sink, own.query_id)
        step("take over")
        self._take(take_over, claim, JobGroup(sink, own.query_id), own)  # 3
        rules.take(BatchSettings.of(settings), settings.sinks.places, in_kafka)
        self._policy = PolicyInForce(spark, folder, access, rules.first_new, self._audit(sink, access))
        self._observation.read_to(checkpoint.read_to())
        preconditions = self._preconditions = BatchPreconditions(sink, claim, own, ids, clock)  # 4
        self._warn_of(access, preconditions)
        fairness = self._fairness = Fairness(spark, settings, essence, self._counted)
        self._beside.callback(fairness.stop)
        ends, self._idle = EndsInPlan(spark), IdleWait(sink, settings.job.clock_tolerance)
        self._rest.callback(self._idle.close)
        self._sink = ExactlyOnceSink(
            sink,
            checkpoint,
            preconditions,
            partitions,
            self._observe,
            publisher_of(rules, tables, self._failpoint),
            HalfLogs(checkpoint, sink.client(), sink.topics, ends),
        )
        self._sink.around_batches(self._before, self._idle)
        step("start the query, and plan the first batch")
        frame = outcome_frame(spark, settings, rules.policies(settings.kafka.topics.retry("")), self._failpoint, ends)
        self._query = start_query(frame, settings, self._sink)
        fairness.watch(self._query, clock.now_ms)
        if checks is not None and self._checks is None:
            checks.start()
        self._checks = checks
        self._observation.of(own, fairness.standing, checks.known_standing if checks else self._elsewhere())
        self._start_beside(Forwarder(sink, checkpoint, partial(claim.refuse_another, own), clock.now_ms))

    def _warn_of(self, access: PolicyFile, preconditions: BatchPreconditions) -> None:
        self._observation.policy_wrong = lambda: access.wrong
        self._observation.few_ops = lambda: preconditions.few_ops

    def _check_service(self) -> CheckService | None:
        """The one of this process, which outlives a query; None: checks are answered elsewhere."""
        if self._checks is None and self._settings.checks.in_job:
            return CheckService(self._settings, registry=self._observation.metrics.registry)
        return self._checks

    def _take(self, take_over: TakeOver, claim: Claim, group: JobGroup, own: Owner) -> None:
        self._job_group = self._rest.enter_context(contextlib.closing(group))
        claim.refuse_others(self._runs)
        self._runs.add(own.run)
        group.refuse_truncated(take_over.take())

    def _own_spark(self, sink: SinkSettings) -> SparkSession:
        spark = build_session(self._settings)
        self._kept.callback(stop_session, spark)
        self._given_spark = spark
        if on_this_machine(self._settings.job.master):
            start_workers_early(spark, self._settings.job.state_partitions)
        else:
            try_executors(spark, self._settings, sink)
            self._executors.of(spark.sparkContext._jsc.sc().statusTracker())
        return spark

    def _judge_at_once(self, claim: Claim, local_query_id: str | None, half_topic_id: str) -> None:
        """Whose the topics are, before anything is written; of a folder of this machine one knows it without Spark."""
        if local_query_id is not None:
            claim.judge(Owner(local_query_id, half_topic_id=half_topic_id), new_checkpoint=self._new_checkpoint)

    def _fitting_checkpoint(self, spark: SparkSession, claim: Claim, facts: CheckpointFacts) -> Checkpoint:
        """A start that is refused as the topics are another one's leaves nothing in a folder that is new."""
        checkpoint = Checkpoint(spark, self._settings.job.checkpoint)
        if checkpoint.is_new():
            self._judge_at_once(claim, "", facts.half_topic_id)
        checkpoint.check(facts)
        return checkpoint

    def _checked_topics(self, sink: SinkSettings) -> int:
        """How many partitions the half topic has. From now on people see what waits in Kafka, and what is done."""
        settings = self._settings
        trial.try_rights(settings)  # before others, to whom a topic that is hidden is one that is not there
        with TopicAdministration(settings.kafka.bootstrap_servers, settings.kafka.python_client) as administration:
            kept_ms = settings.transactions.half_retention_ms
            half_partitions = administration.check(sink.topics, settings.job.state_partitions, kept_ms)
        watch = self._watch(sink)
        self._beside.callback(watch.stop)
        watch.start()
        self._observation.ask_for_ends(watch.ask)
        self._kept.callback(self._serving.stop)
        self._serving.start(early=True)
        return half_partitions

    def _elsewhere(self) -> ChecksStanding:
        """How producer groups stand where check services of their own answer: what heartbeats say."""
        announced = Announced(self._settings)
        self._beside.callback(announced.stop)
        announced.start()
        return announced.standing

    def _start_beside(self, forwarder: Forwarder) -> None:
        self._serving.start()
        self._forwarder = forwarder
        self._beside.callback(forwarder.stop)
        forwarder.start()

    def _before(self, batch: int) -> None:
        """Before a batch is evaluated."""
        self._observation.start_up.step("evaluate and write the first batch")
        if self._policy is not None:
            self._policy.before(batch)
        if self._fairness is not None:
            self._fairness.before(batch, self._policy.now if self._policy is not None else None)

    def _watch(self, sink: SinkSettings) -> HeldBackWatch:
        kafka = self._settings.kafka
        writer = named_writer(kafka.bootstrap_servers, kafka.python_client)
        read = [sink.topics.half, sink.topics.op, sink.topics.later]
        seen = self._observation
        observe = (seen.held_back, seen.looked, seen.held_back_by, CheckersGroup(sink, seen.answered).look)
        return HeldBackWatch(sink.client(), read, writer, *observe)

    @property
    def page(self) -> str:
        """Where its status page is; empty: it has none."""
        return self._serving.url

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the job to end by itself; False when it still runs.

        Raises:
            JobStoppedError: it stopped, or has to be stopped, because continuing would do harm.
            JobFailedError: something failed that may be well again later.
        """
        if self._query is None:
            return True
        self._serving.start()
        if self._checks is not None:
            self._checks.raise_if_dead()
        if self._forwarder is not None:
            self._forwarder.raise_if_dead()
        try:
            ended = bool(self._query.awaitTermination(max(1, int(seconds))))
            reports = self._reports.new(self._query)
            self._executors.look()
        except (StreamingQueryException, Py4JError, OSError) as error:
            reason = self._reason(error)
            if isinstance(reason, KafkaLostError):
                self._observation.kafka_away_ms = wall_ms()
            raise reason from error
        if self._preconditions is not None:  # without the topics Spark may wait and begin no batch
            self._preconditions.refuse_other_topics()
        for progress in reports:
            refuse_dropped_rows(progress)
            self._watched(progress)
        return ended

    def stop(self) -> None:
        """Finish the batch in hand, then stop, within half a minute. Harmless when the job does not run.

        A batch that takes longer is given up, and repeated at the next start.
        """
        checks, self._checks = self._checks, None
        query, self._query = self._query, None
        self._job_group = None
        deadline = time.monotonic() + _STOP_SECONDS
        with self._kept, self._rest:
            self._beside.close()
            if self._sink is not None:
                self._sink.stop_before_next_batch()
            if checks is not None:
                checks.stop(_CHECKS_STOP_SECONDS)  # while the batch in hand continues
            if query is None:
                return
            # a query that has failed says so again, and after a while it is told to stop whatever it does
            with contextlib.suppress(StreamingQueryException, Py4JError, OSError):
                query.awaitTermination(max(1, int(deadline - time.monotonic())))
            with contextlib.suppress(StreamingQueryException, Py4JError, OSError):
                query.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _audit(self, sink: SinkSettings, access: PolicyFile) -> Callable[[int, str], None]:
        """Who else is to hear from which batch on a policy holds; refusals are told likewise."""
        trail = self._trail = self._rest.enter_context(contextlib.closing(AuditTrail(sink)))
        return lambda batch, text: trail.tell([access.said_of(self._settings.job.name, batch, text)])

    def _observe(self, report: BatchReport) -> None:
        self._observation.batch(report)
        if self._trail is not None:
            self._trail.tell(refusals(report.refused))
        if self._fairness is not None:
            self._fairness.after(report)
        if self._observer:
            self._observer(report)

    def _counted(self, count: StateCount) -> None:
        self._observation.counted(count.still_open)
        if self._idle is not None:
            self._idle.begin_with(count.timeouts_ms)

    def _watched(self, progress: Any) -> None:
        """What nothing depends on must not end the job."""
        try:
            waited_ms = self._idle.waited_ms(progress["batchId"]) if self._idle else 0
            found = self._observation.progress(progress, waited_ms)
            if found is not None and self._job_group is not None:
                self._job_group.read_to(found.read_to)
        except (KeyError, TypeError, ValueError, KafkaException):
            _LOGGER.warning("What Spark says of a batch could not be shown.", exc_info=True)

    def _reason(self, error: Exception) -> CheckbackError:
        try:
            if self._preconditions is not None:
                self._preconditions.refuse_another()
        except TakenOverError as taken_over:  # whatever it then did to this job is no news
            return taken_over
        return explained(error, self._settings)
