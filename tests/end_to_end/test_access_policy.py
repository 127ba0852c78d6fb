"""A policy on the real job: what a group may not send is not delivered and not asked about, and operators read why."""

import logging
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkback import Message, TransactionProducer
from checkback.kafka.topic_reading import reading_consumer
from checkback.operations.audit import audit_lines
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import REASON
from streaming import TransactionJob
from tests.place import Place, wait_until


def write(file: Path, *topics: str) -> None:
    names = ", ".join(f'"{topic}"' for topic in topics)
    file.write_text(f'[accounts.shop]\ngroups = ["shop"]\ntopics = [{names}]\n', encoding="utf-8")


def test_what_a_group_may_not_send_is_rejected_and_changes_hold_without_a_restart(
    place: Place, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, orders, payroll = tmp_path / "access.toml", place.real_topic, f"payroll-{place.topics.prefix}"
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(payroll, 1)
    write(file, orders)
    settings = place.settings(access={"policy": str(file)}, checks={"in_job": False}, transactions={"timeout": "1s"})
    with TransactionJob(settings, spark=spark) as job, producing(place, "shop") as shop:

        def send(*messages: Message) -> None:
            shop.commit(shop.prepare(messages[0]) if len(messages) == 1 else shop.prepare_several(messages))

        def delivered(topic: str) -> list[bytes]:
            return sorted(record.value for record in place.read(topic))

        with producing(place, "stranger") as stranger:
            stranger.prepare(Message(orders, b"undecided"))  # is never asked about
            stranger.commit(stranger.prepare(Message(orders, b"stranger")))
        send(Message(payroll, b"foreign"))
        send(Message(orders, b"of two"), Message(payroll, b"of two"))
        send(Message(orders, b"1"))
        wait_until(lambda: delivered(orders) == [b"1"], "what is allowed")
        wait_until(lambda: refused(place).total() >= 4, "four refused")
        assert refused(place) == {
            f"group stranger may not send to {orders}: no account names that group": 2,
            f"group shop may not send to {payroll}, which its account (shop) does not name": 2,
        }
        assert delivered(payroll) == place.read(place.topics.check) == []

        with caplog.at_level(logging.ERROR):
            file.write_text("[accounts.shop]\ngroup = []", encoding="utf-8")
            wait_until(lambda: job.wait(1) or "stays in force" in caplog.text, "the file's error")
        assert any("stays in force" in note for note in job._observation.facts().notes)
        send(Message(orders, b"2"))
        wait_until(lambda: delivered(orders) == [b"1", b"2"], "the old policy")

        write(file, orders, payroll)
        wait_until(lambda: job.wait(1) or payroll in kept(place), "the new policy")
        send(Message(payroll, b"3"))
        wait_until(lambda: delivered(payroll) == [b"3"], "what is allowed now")
        assert not any("stays in force" in note for note in job._observation.facts().notes)
    assert told(place) == {
        ("policy", "", "", 2),
        ("refused", "stranger", orders, 2),
        ("refused", "shop", payroll, 2),
    }


def test_a_policy_and_its_secrets_are_taken_away_while_a_batch_is_unfinished(
    place: Place, spark: SparkSession, tmp_path: Path
) -> None:
    policy, secrets = tmp_path / "access.toml", tmp_path / "secrets.toml"
    write(policy, place.real_topic)
    keyed = '[accounts.programs]\nkeys = ["job-1"]\nroles = ["job", "checks"]\n'
    policies = {"policy": str(policy)}, {"policy": str(policy), "secrets": str(secrets), "key": "job-1"}
    secrets.write_text(f'job-1 = "{"j" * 40}"\n', encoding="utf-8")
    checkpoint, delivered = place.folder / "checkpoint", 0
    with producing(place, "shop") as shop:
        for number, access in enumerate(policies):
            if "key" in access:
                policy.write_text(policy.read_text(encoding="utf-8") + keyed, encoding="utf-8")
            for given in (access, {}):
                shop.commit(shop.prepare(Message(place.real_topic, b"%d, %d" % (number, len(given)))))
                delivered += 1
                deliver(place, TransactionJob(place.settings(access=given), spark=spark), delivered)
                begun, ended = (
                    max(int(one.name) for one in (checkpoint / log).glob("[0-9]*")) for log in ("offsets", "commits")
                )
                assert begun > ended, "a stop leaves a batch that was begun"
    assert delivered == 4


def deliver(place: Place, job: TransactionJob, number: int) -> None:
    """Run the job until that many messages are in the real topic, then stop it."""
    with job:
        wait_until(lambda: job.wait(1) or len(place.read(place.real_topic)) == number, "a delivery")


def told(place: Place) -> set[tuple[str, str, str, int]]:
    """What the audit topic has: kind, group, topic, how many."""
    with closing(reading_consumer(place.bootstrap_servers)) as consumer:
        found = [line.record for line in audit_lines(consumer, place.topics)]
    summed: Counter[tuple[str, str, str]] = Counter()
    for one in found:
        summed[one.kind, one.group, one.topic] += one.number
    return {(*key, number) for key, number in summed.items()}


def producing(place: Place, group: str) -> TransactionProducer:
    return TransactionProducer(place.bootstrap_servers, group, topics=place.topics)


def refused(place: Place) -> Counter[str]:
    """Half messages by reason; their ops find none then, which is another one."""
    found = [dict(record.headers)[REASON].decode() for record in place.read(place.topics.rejected)]
    return Counter(reason for reason in found if "may not send" in reason)


def kept(place: Place) -> str:
    files = (place.folder / "checkpoint").glob("checkback-access-*.json")
    return max(files, key=lambda file: int(file.stem.rpartition("-")[2])).read_text(encoding="utf-8")
