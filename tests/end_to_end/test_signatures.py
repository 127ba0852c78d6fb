"""Signatures on the real job: what forgers write of a group with keys is refused, and operators read why."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from access.verifying import CHANGED
from checkback import (
    CallableListener,
    CheckEndpoint,
    CheckRequest,
    HalfMessage,
    LocalTransactionState,
    Message,
    SigningKey,
    TransactionOptions,
    TransactionProducer,
)
from checkback.kafka.signing import signed
from checkback.kafka.transport import OutgoingRecord
from checkback.operations.operator_ops import OperatorOps
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import REASON, Action, Source, half_headers, op_headers
from state.content import SHUFFLED_BYTES
from streaming import TransactionJob
from tests.place import Place, wait_until

SECRETS = {name: name[0] * 40 for name in ("shop-1", "shop-2", "ops-1", "job-1", "new-1")}
SHOP, OTHER, OPERATOR, _, NEW = (SigningKey(name, secret) for name, secret in SECRETS.items())
POLICY = """
other_groups = "allow"
[accounts.shop]
groups = ["shop"]
other_topics = "allow"
keys = [{keys}]
[accounts.programs]
keys = ["job-1"]
roles = ["job", "checks"]
[accounts.people]
keys = ["ops-1"]
roles = ["operator"]
"""
LATER = TransactionOptions(check_immunity_ms=3_600_000)
WIDE = [("trace", b"t" * 200), ("baggage", b"b" * 200)]
"""With some kilobytes of a value: it is signed without a hash, and kept without its value."""


def test_only_who_has_the_key_is_believed(  # noqa: PLR0915  (one installation for all: a job takes half a minute)
    place: Place, spark: SparkSession, tmp_path: Path
) -> None:
    policy, secrets = tmp_path / "access.toml", tmp_path / "secrets.toml"
    policy.write_text(POLICY.format(keys='"shop-1"'), encoding="utf-8")
    secrets.write_text("".join(f'{name} = "{secret}"\n' for name, secret in SECRETS.items()), encoding="utf-8")
    access = {"policy": str(policy), "secrets": str(secrets), "key": "job-1"}
    settings = place.settings(access=access, transactions={"timeout": "1s", "check_interval": "1s"})
    late = f"{place.topics.prefix}late"
    asked: list[str] = []
    hijacked: list[str] = []

    def answer(message: CheckRequest) -> LocalTransactionState:
        asked.append(message.transaction_id)
        return LocalTransactionState.COMMIT

    def hijack(message: CheckRequest) -> LocalTransactionState:
        hijacked.append(message.transaction_id)
        return LocalTransactionState.ROLLBACK

    listener, hijacking = (CallableListener(lambda *_: LocalTransactionState.UNKNOWN, one) for one in (answer, hijack))
    with (
        TransactionJob(settings, spark=spark) as job,
        CheckEndpoint(place.bootstrap_servers, "shop", listener, topics=place.topics, signing=SHOP),
        # who is heard from last is asked first, if he is believed
        CheckEndpoint(place.bootstrap_servers, "shop", hijacking, topics=place.topics),
        CheckEndpoint(place.bootstrap_servers, "shop", hijacking, topics=place.topics, signing=OTHER),
        producing(place, SHOP) as shop,
        producing(place, None) as stranger,
        producing(place, SHOP, "direct") as direct,
        producing(place, None, group="other") as other_group,
    ):

        def delivered_beginning(text: bytes) -> int:
            return sum(record.value.startswith(text) for record in place.read(place.real_topic))

        def delivered(topic: str = place.real_topic) -> Counter[bytes]:
            return Counter(record.value[:20] for record in place.read(topic))

        # what who has the key writes is taken: by the job, by a lane, large, held, and what another group writes
        shop.commit(shop.prepare(Message(place.real_topic, b"plain", headers=[("trace", b"1")])))
        shop.commit(shop.prepare(Message(place.real_topic, b"large" * SHUFFLED_BYTES)))
        shop.commit(shop.prepare_several([Message(place.real_topic, b"one"), Message(place.real_topic, b"two")]))
        shop.send(Message(place.real_topic, b"sent"))
        shop.commit(shop.prepare(Message(late, b"held" * 900, headers=WIDE)))
        after_a_while = TransactionOptions(deliver_at_ms=time.time_ns() // 1_000_000 + 5_000)
        shop.commit(shop.prepare(Message(place.real_topic, b"delayed" * 500, headers=WIDE), options=after_a_while))
        direct.commit(direct.prepare(Message(place.real_topic, b"direct")))
        other_group.commit(other_group.prepare(Message(place.real_topic, b"other")))
        checked = shop.prepare(Message(place.real_topic, b"checked" * 500, headers=WIDE))
        decided = Message(place.real_topic, b"decided" * 500, headers=WIDE)
        opened = [shop.prepare(decided, options=LATER) for _ in range(3)]
        # kept without their value, and signed with and without a hash of it
        many = [(f"h{number}", b"v" * 10) for number in range(100)]
        kept_short = [
            shop.prepare(Message(place.real_topic, b"kept" * size, headers=headers), options=LATER)
            for size, headers in ((900, WIDE), (5, many), (1_017, []), (2_000, []), (6_000, WIDE))
        ]
        early = [other_group.prepare(Message(place.real_topic, b"early" * size), options=LATER) for size in (1, 9_000)]

        # and what a stranger writes is not
        stranger.commit(stranger.prepare(Message(place.real_topic, b"forged half")))
        undecided = stranger.prepare(Message(place.real_topic, b"forged, and not asked about"))
        stranger.commit(opened[0])
        forge(place, opened[1], Source.CHECK, SHOP)
        forge(place, opened[1], Source.OPERATOR, SHOP)
        forge(place, opened[1], Source.PRODUCER, OTHER)
        changed(place, b"forged content" * SHUFFLED_BYTES)
        expected = {
            b"plain",
            (b"large" * 4),
            b"one",
            b"two",
            b"sent",
            b"direct",
            b"other",
            b"checked" * 500,
            b"delayed" * 500,
        }
        wait_until(lambda: job.wait(0.2) or delivered() == Counter(one[:20] for one in expected), "what is signed")
        wait_until(lambda: job.wait(0.2) or refused(place).total() >= 8, "what is not")
        assert refused(place) == {
            "group shop has keys, and cb-signature is missing": 4,
            "it is signed with key shop-1; the answer to a check of group shop needs a key of an account with the role "
            "checks": 1,
            "it is signed with key shop-1; what an operator decides of group shop needs a key of an account with the "
            "role operator": 1,
            "it is signed with key shop-2; what a producer writes of group shop needs a key of its account, or of an "
            "account with the role job": 1,
            CHANGED: 1,
        }
        assert undecided.transaction_id not in asked
        assert set(asked) == {checked.transaction_id}
        assert not hijacked

        for half in kept_short:
            shop.commit(half)
        wait_until(lambda: job.wait(0.2) or delivered_beginning(b"kept") == len(kept_short), "what was kept without")
        with OperatorOps(place.bootstrap_servers, place.topics, signing=OPERATOR) as ops:
            ops.write([(one.transaction_id, "shop", one.half) for one in opened], Action.COMMIT)
        with TopicAdministration(place.bootstrap_servers) as administration:
            administration.create_one(late, 1)
        wait_until(lambda: job.wait(0.2) or delivered_beginning(b"decided") == 3, "the operator's")
        wait_until(lambda: job.wait(0.2) or delivered(late) == {b"held" * 5: 1}, "what was held, signed by the job")

        # another key takes the place of the first, with both in force for a while
        both = POLICY.format(keys='"shop-1", "shop-2"')
        policy.write_text(f'{both}[accounts.other]\ngroups = ["other"]\nother_topics = "allow"\nkeys = ["new-1"]\n')
        wait_until(lambda: job.wait(0.2) or "shop-2" in kept(place), "both keys")
        with producing(place, NEW, group="other") as with_key:  # what is open goes on, large or small
            for half in early:
                with_key.commit(half)
        wait_until(lambda: job.wait(0.2) or delivered_beginning(b"early") == len(early), "what was open before the key")
        with producing(place, OTHER) as new:
            new.commit(new.prepare(Message(place.real_topic, b"new key")))
            shop.commit(shop.prepare(Message(place.real_topic, b"old key")))
            wait_until(
                lambda: job.wait(0.2) or delivered()[b"new key"] + delivered()[b"old key"] == 2, "both keys' work"
            )
        assert not any(secret in kept(place) for secret in SECRETS.values())


@contextmanager
def producing(
    place: Place, key: SigningKey | None, delivery: str = "job", group: str = "shop"
) -> Iterator[TransactionProducer]:
    transport = "confluent-kafka" if delivery == "direct" else "kafka-python"
    options = {
        "topics": place.topics,
        "transport": transport,
        "delivery": delivery,
        "signing": key,
        "missing_topic": "ignore",
    }
    with TransactionProducer(place.bootstrap_servers, group, **options) as made:  # type: ignore[arg-type]  # they are its
        yield made


def forge(place: Place, half: HalfMessage, source: Source, key: SigningKey) -> None:
    headers = op_headers(half.transaction_id, "shop", half.half, Action.COMMIT, source)
    write(place, signed(OutgoingRecord(place.topics.op, half.half.partition, None, b"", headers), key))


def changed(place: Place, value: bytes) -> None:
    """A half message with its own commit, and another value than was signed."""
    headers = half_headers("changed", "shop", place.real_topic)
    headers.insert(3, ("cb-action", b"commit"))
    signed_value = b"signed" * SHUFFLED_BYTES
    write(place, signed(OutgoingRecord(place.topics.half, 0, None, signed_value, headers), SHOP)._replace(value=value))


def write(place: Place, record: OutgoingRecord) -> None:
    producer = place.producer()
    producer.send(record.topic, record.value, headers=list(record.headers), partition=record.partition).get(120)
    producer.close()


def refused(place: Place) -> Counter[str]:
    found = [dict(record.headers)[REASON].decode() for record in place.read(place.topics.rejected)]
    return Counter(reason for reason in found if "sign" in reason)


def kept(place: Place) -> str:
    files = (place.folder / "checkpoint").glob("checkback-access-*.json")
    return max(files, key=lambda file: int(file.stem.rpartition("-")[2])).read_text(encoding="utf-8")
