"""What ``checkback doctor`` makes of what it sees; on a real broker: ``test_on_call.py``."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from checkback.operations.job_in_kafka import ClaimRecord
from checkback.operations.topic_facts import TopicFacts, faults
from checkback.wire.protocol import Topics
from checkback.wire.rights import ResourceKind
from checkback_cli.doctor.brokers import broker_settings, features, lacking_rights, off_by
from checkback_cli.doctor.checkpoint import about_checkpoint, about_master, mismatches, same_id
from checkback_cli.doctor.finding import Level
from checkback_cli.doctor.job import about_port, of_facts
from checkback_cli.doctor.machine import about_jars, about_java, about_packages, local_folder, room, scratch, unfitting
from checkback_cli.doctor.settings import about_policy, about_settings
from conf import Settings, TransactionSettings
from tests.checkback_cli.facts_made import FACTS

TOPICS = Topics()
RIGHT = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": "100000000",
    "min.insync.replicas": "2",
    "message.timestamp.type": "LogAppendTime",
    "compression.type": "uncompressed",
}
COMPACTED = {**RIGHT, "cleanup.policy": "compact"}


def topic(name: str, **configuration: str) -> TopicFacts:
    base = COMPACTED if name in {TOPICS.status, TOPICS.producers, TOPICS.control} else RIGHT
    return TopicFacts(
        name, 2, 3, (), (), 0, {**base, **{key.replace("_", "."): to for key, to in configuration.items()}}
    )


ALL = {name: topic(name) for name in TOPICS.all()}


def found(**changed: TopicFacts) -> list[tuple[str, str, bool]]:
    given = {**ALL, **{f"cb.{name}": facts for name, facts in changed.items()}}
    return [(fault.topic, fault.what, fault.stops) for fault in faults(given, TOPICS, TransactionSettings(), 2)]


def test_topics_as_they_are_made_have_no_fault() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("name", "facts", "what", "stops"),
    [
        ("half", TopicFacts("cb.half", 0), "is missing", True),
        ("half", TopicFacts("cb.half", 0, error="TopicAuthorizationFailedError"), "may not be looked at", True),
        ("half", topic("cb.half", retention_ms="3600000"), "is kept for 1 h, and is needed for 12 d", True),
        ("op", topic("cb.op", retention_ms="3600000"), "is kept for 1 h", False),
        ("half", topic("cb.half", retention_bytes="1000"), "is deleted by size", False),
        ("half", topic("cb.half", cleanup_policy="compact"), "is compacted", True),
        ("status", topic("cb.status", cleanup_policy="delete"), "is not compacted", True),
        ("status", topic("cb.status", cleanup_policy="compact,delete"), "is deleted by age", True),
        ("op", topic("cb.op", unclean_leader_election_enable="true"), "has unclean.leader.election.enable=true", False),
        ("op", topic("cb.op", message_timestamp_type="CreateTime"), "has message.timestamp.type=CreateTime", True),
        ("op", topic("cb.op", compression_type="producer"), "has compression.type=producer", False),
        ("parked", topic("cb.parked", max_message_bytes="1048588"), "takes 1,048,588 bytes a record", False),
        ("check", topic("cb.check", min_insync_replicas="4"), "has min.insync.replicas=4 and 3 replicas", True),
        ("check", topic("cb.check", min_insync_replicas="1"), "what one broker has may be lost", False),
        ("op", topic("cb.op")._replace(partitions=1), "cb.half has 2 partitions and cb.op 1", True),
        ("progress", topic("cb.progress")._replace(partitions=1), "has 1 partitions", True),
        ("op", topic("cb.op")._replace(leaderless=(0, 1)), "has no leader for partitions 0, 1", True),
        ("op", topic("cb.op")._replace(short=(1,)), "lacks replicas in sync for partition 1", False),
        ("op", topic("cb.op")._replace(configuration={}), "has a configuration that Kafka does not tell", False),
    ],
)
def test_what_is_wrong_with_a_topic(name: str, facts: TopicFacts, what: str, *, stops: bool) -> None:
    ((topic_name, said, stopping),) = found(**{name: facts})
    assert (topic_name, stopping) == (f"cb.{name}", stops)
    assert what in said


def levels(findings: Any) -> list[Level]:
    return [finding.level for finding in findings]


NEWER = {"TxnOffsetCommit": (0, 5), "InitProducerId": (0, 5), "DescribeTransactions": (0, 0), "Metadata": (0, 13)}


def test_what_brokers_can_do() -> None:
    assert levels(features(NEWER)) == [Level.OK]
    assert levels(features({**NEWER, "Metadata": (0, 9)})) == [Level.WARNING]
    assert levels(features({**NEWER, "TxnOffsetCommit": (0, 2)})) == [Level.WRONG]
    assert levels(features({})) == [Level.WRONG, Level.WARNING]


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({}, []),
        ({"transaction.max.timeout.ms": "900000", "offsets.retention.minutes": "10080"}, []),
        ({"transaction.max.timeout.ms": "60000"}, [Level.WRONG]),
        ({"offsets.retention.minutes": "60"}, [Level.WARNING]),
        ({"auto.create.topics.enable": "true"}, [Level.WARNING]),
    ],
)
def test_how_brokers_are_set(configuration: dict[str, str], expected: list[Level]) -> None:
    assert levels(broker_settings(configuration, Settings())) == expected


def test_rights_that_are_missing() -> None:
    every = frozenset({"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"})
    allowed = {(ResourceKind.TOPIC, name): every for name in ALL}
    assert lacking_rights(TOPICS, allowed) == []
    found = lacking_rights(
        TOPICS,
        {
            **allowed,
            (ResourceKind.TOPIC, "cb.op"): every - {"WRITE"},
            (ResourceKind.TOPIC, "cb.half"): None,
            (ResourceKind.GROUP, "checkback-claim:cb."): frozenset(),
        },
    )
    assert list(map(str, found)) == ["Write on the topic cb.op", "Read on groups that begin with 'checkback-'"]


@pytest.mark.parametrize(
    ("ms", "level", "said"),
    [
        (0, Level.OK, "as Kafka's"),
        (900, Level.OK, "0.9 s ahead of"),
        (-9_000, Level.WARNING, "9 s behind"),
        (601_000, Level.WRONG, "10 min ahead of"),
    ],
)
def test_clocks(ms: int, level: Level, said: str) -> None:
    finding = off_by(ms, 600_000)
    assert finding.level is level
    assert said in finding.said


CLAIM = ClaimRecord("run", "host", 7, "then", query_id="q")
FIT = {"segment_size": 4_096, "state_partitions": 2, "topic_prefix": "cb.", "half_topic_id": ""}


@pytest.mark.parametrize(
    ("changed", "query", "said"),
    [
        ({}, "q", None),
        ({"state_partitions": 4}, "q", "it has state_partitions = 4, and the settings say 2"),
        ({"topic_prefix": "x."}, "q", "it has topic_prefix = x., and the settings say cb."),
        ({}, "other", "another checkpoint was the last to read these topics: process 7 on host, since then"),
        ({"half_topic_id": "a" * 22}, "q", "cb.half was deleted and made again"),
    ],
)
def test_whose_a_checkpoint_is(changed: dict[str, Any], query: str, said: str | None) -> None:
    ids = {"cb.half": "00000000-0000-0000-0000-000000000001"}
    (finding,) = mismatches({**FIT, **changed}, query, Settings(), CLAIM, ids)
    assert finding.level is (Level.OK if said is None else Level.WRONG)
    assert said is None or said in finding.said


def test_ids_of_topics_are_the_same_however_they_are_spelled() -> None:
    assert same_id("AAAAAAAAAAAAAAAAAAAAAQ", "00000000-0000-0000-0000-000000000001")
    assert not same_id("AAAAAAAAAAAAAAAAAAAAAQ", "00000000-0000-0000-0000-000000000002")


def in_folder(folder: Path, claim: ClaimRecord | None = None) -> list[tuple[Level, str]]:
    settings = Settings.model_validate({"job": {"checkpoint": str(folder)}})
    return [(one.level, one.said) for one in about_checkpoint(settings, claim, {})]


def test_a_checkpoint_that_has_grown_or_is_growing(tmp_path: Path) -> None:
    (tmp_path / "checkback.json").write_text(json.dumps({**FIT, "state_partitions": 4}))
    (tmp_path / "metadata").write_text('{"id": "q"}')
    (tmp_path / "checkback-partitions-2").touch()
    assert levels(in_folder_findings(tmp_path)) == [Level.OK]
    (tmp_path / "checkback-growing-8").touch()
    (finding,) = in_folder_findings(tmp_path)
    assert finding.level is Level.WRONG
    assert "'checkback grow --state-partitions 8' was cut off" in finding.said
    assert "type it again, or 'checkback grow --state-partitions 2'" in finding.todo


def test_a_checkpoint_folder(tmp_path: Path) -> None:
    assert levels(in_folder_findings(tmp_path / "new")) == [Level.OK]
    assert "these topics belong to another one" in in_folder(tmp_path / "new", CLAIM)[0][1]
    (tmp_path / "checkback.json").write_text("{")
    assert in_folder(tmp_path) == [(Level.WRONG, f"{tmp_path / 'checkback.json'} is missing or torn")]
    (tmp_path / "checkback.json").write_text('{"segment_size": 4096}')
    assert in_folder(tmp_path) == [(Level.WRONG, f"{tmp_path / 'metadata'} is missing or torn")]
    (tmp_path / "metadata").write_text('{"id": "q"}')
    assert in_folder(tmp_path, CLAIM) == [(Level.OK, f"{tmp_path} belongs to these topics")]
    without_kafka = f"{tmp_path} fits the settings; whose topics it belongs to, Kafka has to say"
    assert in_folder(tmp_path) == [(Level.OK, without_kafka)]
    file = tmp_path / "file"
    file.touch()
    assert in_folder(file / "below") == [(Level.WRONG, f"{file} is not a folder")]


def in_folder_findings(folder: Path) -> Any:
    return about_checkpoint(Settings.model_validate({"job": {"checkpoint": str(folder)}}), None, {})


def test_a_checkpoint_elsewhere_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.model_validate({"job": {"checkpoint": "s3a://bucket/x"}})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a key")
    assert levels(about_checkpoint(settings, None, {})) == [Level.WARNING]
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert next(one.said for one in about_checkpoint(settings, None, {})) == "AWS_ACCESS_KEY_ID is not set here"
    for job in ({"checkpoint": "s3://bucket/x"}, {"checkpoint": "folder", "master": "spark://somewhere:7077"}):
        assert levels(about_checkpoint(Settings.model_validate({"job": job}), None, {})) == [Level.WRONG]
    assert local_folder("file:///data/x") == local_folder("file:/data/x") == Path("/data/x")


def test_a_cluster_whose_master_is_not_there_is_named() -> None:
    def found(master: str) -> list[Level]:
        return levels(about_master(Settings.model_validate({"job": {"master": master}})))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert found(f"spark://127.0.0.1:{port}") == [Level.OK]
    assert found(f"spark://127.0.0.1:{port}") == [Level.WRONG]
    assert found("local[*]") == found("yarn") == []


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (finding,) = about_port(Settings.model_validate({"http": {"port": port}}))
    assert (finding.level, finding.said) == (Level.WARNING, f"127.0.0.1:{port} (http.port) is in use")
    assert levels(about_port(Settings.model_validate({"http": {"port": 0}}))) == [Level.OK]


def test_what_a_job_says() -> None:
    said = [(one.level, one.said) for one in of_facts(FACTS)]
    assert said == [
        (Level.OK, "checkback 0.1.0 runs on host-1, for 2 h 5 min"),
        (Level.WARNING, "Group orders has not been reached for 5 min."),
        (Level.WARNING, "1,500 committed messages are held, 1,500 for shop.late: there is no such topic"),
        (Level.WARNING, "2 messages are parked"),
    ]


def test_this_machine() -> None:
    assert levels(about_java())[0] in {Level.OK, Level.WARNING}
    assert levels(about_packages()) == [Level.OK]
    assert levels(about_jars(Settings()))[0] in {Level.OK, Level.WARNING}
    assert levels(unfitting({"pyspark": "4.3.0", "pandas": "3.0", "kafka-python": "3.1"})) == [Level.WRONG, Level.WRONG]


@pytest.mark.parametrize(("free", "level"), [(1, Level.WRONG), (1 << 30, Level.WARNING), (3 << 30, Level.OK)])
def test_room_on_the_disk(free: int, level: Level) -> None:
    assert room(Path("/"), free).level is level


def test_settings_that_are_likely_not_meant() -> None:
    given = Settings.model_validate(
        {
            "kafka": {
                "bootstrap_servers": "localhost:9092,kafka-1:9092",
                "security": {"protocol": "SASL_PLAINTEXT", "username": "u", "password": "p"},
            },
            "http": {"host": "0.0.0.0", "token": "0123456789abcdef"},  # noqa: S104  (what is warned of)
            "transactions": {"check_max": 0},
            "checks": {"in_job": False},
        }
    )
    said = " ".join(one.said for one in about_settings(given, None, None) if one.level is Level.WARNING)
    for part in ("mixes this machine", "http.host is 0.0.0.0", "http.token is in", "SASL_PLAINTEXT", "check_max is 0"):
        assert part in said
    assert levels(about_settings(Settings(), None, None)) == [Level.OK]


def test_what_killed_runs_have_left() -> None:
    mib = 1 << 20
    assert scratch(Path("/scratch"), 0, 0).level is Level.OK
    found = scratch(Path("/scratch"), 280 * mib, 3 * mib)
    assert (found.level, found.said.partition(" in ")[0]) == (Level.OK, "280 MiB of killed runs")
    assert "the next start removes" in found.said
    assert scratch(Path("/scratch"), 0, 500 * mib).level is Level.WARNING


SHOP = '[accounts.shop]\ngroups = ["shop"]\ntopics = ["orders"]\n'


@pytest.mark.parametrize(
    ("text", "level", "said"),
    [
        (SHOP, Level.WARNING, "is believed unsigned"),
        (SHOP + "topic = 1\n", Level.WRONG, "accounts.shop.topic: unknown key"),
        ("[accounts.shop", Level.WRONG, "It is not TOML"),
        ("", Level.WRONG, "It names no account, so every message would be rejected"),
        ("account_count = 0", Level.WARNING, "nobody may send anything"),
        (f"account_count = 2\n{SHOP}", Level.WRONG, "account_count is 2, but the file has 1 accounts"),
        (SHOP + 'keys = ["shop-1"]\n', Level.WRONG, "no secret of: shop-1"),
        (None, Level.WRONG, "No such file"),
    ],
)
def test_the_access_policy(text: str | None, level: Level, said: str, tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    found = list(about_policy(Settings.model_validate({"access": {"policy": str(file)}})))
    assert [one.said for one in found if one.level is level and said in one.said and str(file) in one.said]
    assert all("\n" not in one.said for one in found)


def test_without_a_policy_doctor_says_who_is_trusted() -> None:
    assert levels(about_policy(Settings())) == [Level.OK]
