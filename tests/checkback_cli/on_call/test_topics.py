"""``checkback topics`` on a real broker, and the topics that all commands need."""

import pytest

from tests.checkback_cli.on_call.scene import invoke, lines, refusal
from tests.job_records import JobRecords


def test_topics_are_listed_with_what_is_wrong(written: JobRecords) -> None:
    shown = {row[0]: row[1:] for row in lines("topics", "list")}
    assert shown[written.topics.half] == ["2", "1", "1", "12 d", "0", "yes"]
    assert shown[written.topics.status][3] == "the last of each key"
    assert {row[-1] for row in shown.values()} == {"yes"}


def test_that_held_messages_are_tried_again_is_said_only_where_half_messages_are(written: JobRecords) -> None:
    first, second = (f"new-{number}-{written.place.real_topic}" for number in range(2))
    assert "holds" not in invoke("topics", "create", first).stderr, "of a first-time user"
    written.half("tx")
    assert "The job tries messages that it holds" in invoke("topics", "create", second).stderr
    assert "holds" not in invoke("topics", "create", second).stderr, "it was there"


def test_missing_topics_are_status_1(written: JobRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKBACK_KAFKA__TOPIC_PREFIX", "nowhere.")
    done = invoke("topics", "list")
    assert done.exit_code == 1
    assert done.output.splitlines()[0].endswith("is missing: run 'checkback topics create'")
    for command in (["open"], ["tail"], ["groups"], ["show", "tx"], ["commit", "tx", "--yes", "--why", "x"]):
        assert "Kafka has no topic nowhere." in refusal(*command)
