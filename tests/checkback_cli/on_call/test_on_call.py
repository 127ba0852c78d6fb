"""Whoever is on call, on a real broker, without a job: what it would write, a test writes."""

import json
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from checkback.kafka.record_ranges import ReadLimits
from checkback.kafka.topic_reading import reading_consumer
from checkback.operations.in_doubt import InDoubt
from checkback.operations.producers import AnnouncedEndpoint
from checkback.operations.story import story_of
from checkback.operations.story_standing import Stand
from checkback.wire import protocol
from checkback.wire.message_json import pack
from checkback.wire.protocol import Action, HalfPosition, Message, Source
from checkback_cli import app
from checkback_cli.on_call.in_doubt import counts_by_reason, known_groups
from conf import CheckSettings
from status_page.facts import GroupFacts
from status_page.words import NO_ENDPOINT
from tests.checkback_cli.facts_made import bodies, page
from tests.checkback_cli.on_call.scene import invoke, lines, objects, refusal
from tests.job_records import JobRecords, now_ms
from tests.place import wait_until


def test_transactions_in_doubt_are_listed_the_oldest_first(written: JobRecords) -> None:
    old, young, over = (written.half(name) for name in ("old", "young", "over"))
    due = now_ms() + 3_600_000
    written.in_doubt("young", young)
    written.in_doubt("old", old, attempt=3, ingested_ms=now_ms() - 7_500_000, last_answer="unknown", next_check_ms=due)
    written.in_doubt("over", over)
    written.decided(over)
    written.in_doubt("other", HalfPosition(1, 9), group="evil")
    shown = lines("open", "--group", "shop")
    assert [row[0] for row in shown] == ["old", "young"]
    assert shown[0][1:7] == ["shop", written.place.real_topic, str(old), "2 h 5 min", "3 of 15", "unknown"]
    assert shown[0][7].startswith(("in 59 min", "in 1 h"))
    assert {row[8] for row in shown} == {f"Nobody can be asked; {NO_ENDPOINT}"}
    assert [row[0] for row in lines("open", "--older-than", "10m")] == ["old"]
    assert [row[0] for row in lines("open", "--limit", "1")] == ["old"]
    (one,) = objects("open", "--topic", written.place.real_topic, "--older-than", "1h")
    assert (one["half"], one["next_check_ms"]) == (str(old), due)


def test_an_answer_is_shown_with_its_remark_and_tries_at_which_nobody_was_reached(written: JobRecords) -> None:
    missed, hangs = written.half("missed"), written.half("hangs")
    gone: dict[str, Any] = {"last_answer": "unreachable", "answered_ms": 2, "misses": 7, "remark": "http://a: refused"}
    late: dict[str, Any] = {
        "last_answer": "unknown",
        "answered_ms": 2,
        "misses": 0,
        "remark": "http://a: no answer in time",
    }
    written.announced("shop", "http://a:1/")
    written.in_doubt("missed", missed, ingested_ms=1, **gone)
    written.in_doubt("hangs", hangs, ingested_ms=2, **late)
    shown = lines("open")
    assert [row[5:7] for row in shown] == [
        ["not asked yet: nobody reachable, 7 tries", "unreachable"],
        ["1 of 15", "unknown"],
    ]
    assert [row[8] for row in shown] == [
        "Nobody could be asked; http://a: refused",
        "Asked, no verdict; http://a: no answer in time",
    ]
    assert [(one["misses"], one["answered_ms"]) for one in objects("open")] == [(7, 2), (0, 2)]


def test_a_topic_for_which_no_live_endpoint_answers_is_named_by_each_command(written: JobRecords) -> None:
    written.announced("shop", "http://x:secret@127.0.0.1:1/", topics=("paid",))
    written.in_doubt("late", written.half("late"), last_answer="")
    topic = objects("open")[0]["topic"]
    why = f"no working endpoint for {topic}"
    assert lines("open")[0][8] == f"Nobody can be asked; {why}"
    assert lines("groups", "--kind", "producer")[0][5].endswith(f"; nobody to ask for {topic}")
    found = objects("doctor", code=1)
    assert "secret" not in str(found)
    (red,) = [one for one in found if one["level"] == "wrong"]
    assert red["said"] == f"group shop has 1 transaction in doubt for topic {topic}: nobody can be asked; {why}"


def test_a_group_that_a_list_does_not_have_is_named_with_those_that_it_has(written: JobRecords) -> None:
    half = written.half("tx")
    written.in_doubt("tx", half)
    done = invoke("open", "--group", "nosuch")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.splitlines()[:2] == ["Nothing is of group nosuch. Groups in this list: shop.", "None."]
    assert "nosuch" not in invoke("open", "--group", "shop").stderr
    held = "Held: not known, as no job answers: 'checkback status' says why."
    assert invoke("open").stderr.splitlines()[-1] == held
    assert invoke("parked", "list", "--group", "x").stderr.splitlines()[0] == (
        "Nothing is of group x. The list is empty."
    )
    assert invoke("groups", "--group", "x").stderr.splitlines()[-2:] == [
        "Producer groups: none.",
        "Consumer groups: none.",
    ]


def test_what_is_held_is_said_below_the_list_as_the_job_says(written: JobRecords) -> None:
    written.in_doubt("hangs", written.half("hangs"), group="hangs", last_answer="")
    late = "endpoint skipped: http://a:1/: no complete answer in time"
    prefix = written.topics.prefix
    written.announced("hangs", "http://a:1/")
    with page(bodies(topic_prefix=prefix, groups=(GroupFacts("hangs", unasked=late),))) as url:
        done = invoke("open", "--job", url)
        other = invoke("open", "--job", url, "--topic", "shop.orders")
        (one,) = objects("open", "--job", url)
    assert done.exit_code == 0, (done.output, done.exception)
    held = "Held: 1,500 committed for shop.late: there is no such topic; next try in 40 s."
    assert done.stderr.splitlines()[-2:] == [f"1 of group hangs: Nobody can be asked; {late}.", held]
    assert "Held" not in done.stdout
    assert one["why"] == f"Nobody can be asked; {late}", "the job knows that it asks nobody"
    assert "Held" not in other.stderr
    with page(bodies(topic_prefix=prefix, held=())) as url:
        assert "Held" not in invoke("open", "--job", url).stderr
    with page(bodies(topic_prefix=prefix, held=(), batch=None)) as url:
        assert "Held: not known yet" in invoke("open", "--job", url).stderr


def test_causes_that_are_all_different_are_counted_together() -> None:
    row = InDoubt("a", "shop", "t", HalfPosition(0, 1), 1, 15, 0, 0, "unknown", 0, 1)
    rows = [row._replace(remark=f"no order {number}") for number in range(5)] + [row._replace(remark="busy")] * 3
    group = {"shop": GroupFacts("shop")}
    assert list(counts_by_reason(rows, group)) == ["8 of group shop: Asked, no verdict; most often: busy."]
    assert list(counts_by_reason(rows[4:], group)) == [
        "3 of group shop: Asked, no verdict; busy.",
        "1 of group shop: Asked, no verdict; no order 4.",
    ]


def test_what_is_in_doubt_is_counted_by_reason() -> None:
    rows = [
        InDoubt("a", "shop", "t", HalfPosition(0, 1), 1, 15, 0, 0),
        InDoubt("b", "shop", "t", HalfPosition(0, 2), 1, 15, 0, 0),
    ]
    heard = [AnnouncedEndpoint("shop", "i", "http://a:1/", 1_000)]
    (gone,) = known_groups({"shop"}, heard, CheckSettings.model_validate({"endpoint_ttl": "120s"}), 301_000)
    assert list(counts_by_reason(rows, {"shop": gone})) == [
        "2 of group shop: Nobody can be asked; endpoint skipped: no heartbeat for 5 min."
    ]
    (live,) = known_groups({"shop"}, heard, CheckSettings.model_validate({"endpoint_ttl": "120s"}), 61_000)
    assert not live.unasked


def test_a_story_from_half_message_to_delivery(written: JobRecords) -> None:
    half = written.half("tx", key=b"k")
    written.op("noise", HalfPosition(0, half.offset + 1), Action.COMMIT)
    written.check("tx", half)
    written.op("tx", half, Action.UNREACHABLE, Source.CHECK, remark=b"no live endpoint")
    written.check("tx", half, attempt=2)
    late = written.op("tx", half, Action.COMMIT, Source.CHECK, remark=b"it is in the database")
    refused = written.op("tx", half, Action.ROLLBACK, Source.OPERATOR)
    written.refused("tx", half, refused, Action.ROLLBACK, "it contradicts the decision")
    written.delivered("tx", value=b"of another transaction with this id", key=b"k")
    place = written.delivered("tx", key=b"k")
    (story,) = objects("show", "tx")
    assert (story["stands"], story["why"], story["half"]) == ("delivered", place, str(half))
    assert [event["what"] for event in story["events"]] == [
        f"half message of 1 byte for {written.place.real_topic}",
        "check requested, for attempt 1 of 15",
        "unreachable by check, uses up no attempt",
        "check requested, for attempt 2 of 15",
        "commit by check",
        "rollback by operator",
        f"refused, the rollback by operator at {refused}",
        f"delivered to {written.place.real_topic}",
    ]
    assert story["events"][4]["place"] == late
    assert story["events"][2]["remark"] == "no live endpoint"
    assert story["not_looked_at"] == []
    shown = lines("show", "--half", str(half))
    assert ["stands", f"delivered: {place}"] in shown
    assert [row[2] for row in shown if len(row) == 6][-1] == f"delivered to {written.place.real_topic}"


def test_a_message_that_its_topic_did_not_take_belongs_to_the_first_ones_story(written: JobRecords) -> None:
    first = written.half("tx")
    written.op("tx", first, Action.COMMIT)
    noted = ((protocol.ACTION, b"park"), (protocol.HELD, f"0 0 {first}".encode()), (protocol.REASON, b"no such topic"))
    copy = written.half("tx", more=noted)
    written.parked("tx", copy, f"{protocol.UNDELIVERABLE} x: there is no such topic", origin=first)
    written.op("tx", copy, Action.REDELIVER, Source.OPERATOR)
    for arguments in (["tx"], ["--half", str(copy)]):
        (story,) = objects("show", *arguments)
        assert (story["half"], story["stands"]) == (str(first), "parked")
        assert story["why"] == "the operator's redeliver waits for the job"
        kinds = [event["kind"] for event in story["events"]]
        assert kinds == ["half", "op", "undeliverable", "parked", "op"]


def test_several_messages_are_found_in_their_topics(written: JobRecords) -> None:
    topic = written.place.real_topic
    value = pack([Message(topic, b"one", b"k"), Message(topic, b"two")])
    half = written.half("many", value=value, more=((protocol.MESSAGES, b"2"),))
    written.op("many", half, Action.COMMIT)
    written.delivered("many#1", b"one", b"k")
    (story,) = objects("show", "many#1")
    assert (story["transaction_id"], story["stands"]) == ("many", "committed")
    assert story["why"].startswith("1 of 2 messages delivered; by producer")
    written.delivered("many#2", b"two")
    assert objects("show", "many")[0]["stands"] == "delivered"


def test_a_story_is_found_by_its_id_which_several_groups_may_use_or_by_its_beginning(written: JobRecords) -> None:
    shops, evil = written.half("same"), written.half("same", group="evil")
    stories = objects("show", "same")
    assert {(story["half"], story["group"], story["stands"]) for story in stories} == {
        (str(shops), "shop", "open"),
        (str(evil), "evil", "open"),
    }
    first, second, doubted = written.half("c441-first"), written.half("c441-second"), written.half("c442-third")
    written.in_doubt("c442-third", doubted)
    found = {text: objects("show", text)[0]["half"] for text in ("c441-f", "c441-second", "c442")}
    assert found == {"c441-f": str(first), "c441-second": str(second), "c442": str(doubted)}
    assert refusal("show", "c441") == "c441 begins several ids: c441-first, c441-second. Give more of it."
    written.half("c441")
    assert objects("show", "c441")[0]["transaction_id"] == "c441", "an id is itself first"


def test_what_is_nowhere_is_told_with_where_it_was_looked_for(written: JobRecords) -> None:
    written.half("tx")
    assert "No id is nobody or begins so in half messages of the last 1 h" in refusal("show", "nobody", "--since", "1h")
    short = refusal("show", "tx-")
    assert "No id is tx- in half messages" in short
    assert "A beginning needs 4 characters." in short
    assert "Kafka has no record of a half message at 1:77" in refusal("show", "--half", "1:77")
    for wrong in (["show"], ["show", "tx", "--half", "0:0"], ["show", "--half", "x"], ["show", "tx", "--since", "x"]):
        assert invoke(*wrong).exit_code == 2


def test_what_was_not_looked_at_is_named(written: JobRecords) -> None:
    half = written.half("tx")
    for _ in range(30):
        written.op("noise", HalfPosition(0, 9_000), Action.COMMIT)
    consumer = reading_consumer(written.place.bootstrap_servers)
    try:
        story = story_of(consumer, written.topics, half, ReadLimits(records=10))
    finally:
        consumer.close()
    assert story is not None
    assert story.standing.stand is Stand.OPEN
    assert story.not_looked_at == (f"{written.topics.op}-0: offsets 10 to 29 (20 records)",)


def test_without_a_job_status_is_what_kafka_says(written: JobRecords) -> None:
    done = invoke("status")
    assert done.exit_code == 1
    assert "No job has claimed the topics" in done.output
    half = written.half("tx")
    written.parked("tx", half, "too old")
    written.claim(job="shop", host=socket.gethostname(), process=7, page="http://127.0.0.1:1")
    written.read_to({(written.topics.half, 0): 0, (written.topics.op, 0): 0})
    done = invoke("status")
    assert done.exit_code == 1
    said = dict(line.split("\t", 1) for line in done.output.splitlines())
    assert said["no answer"].startswith("No job answers at http://127.0.0.1:1")
    assert said["claimed by"].startswith(
        f"job 'shop', process 7 on {socket.gethostname()}, since 2026-11-22 09:30:00 UTC"
    )
    assert (said["behind"], said["parked"]) == ("at most 1 records of the half and the op topic", "1")
    asked = json.loads(invoke("status", "--json").output)
    assert (asked["job"], asked["claim"]["process"], asked["behind"], asked["parked"]) == (None, 7, 1, 1)


def test_the_job_is_found_by_its_claim(written: JobRecords) -> None:
    with page(bodies(topic_prefix=written.topics.prefix)) as url:
        written.claim(run="run-1", host=socket.gethostname(), page=url)
        done = invoke("status")
        assert done.exit_code == 0, (done.output, done.exception)
        assert "open\t1,234, the oldest for 2 h" in done.output
        assert lines("groups", "--group", "orders")[0][1] == "1234"


def test_without_a_job_groups_are_what_kafka_says(written: JobRecords) -> None:
    half = written.half("tx")
    written.in_doubt("tx", half)
    written.announced("shop", "http://127.0.0.1:1/")
    done = invoke("groups", "--kind", "producer")
    assert done.exit_code == 0
    assert "No job has claimed the topics" in done.stderr
    (row,) = [line.split("\t") for line in done.stdout.splitlines()]
    assert row[:3] == ["shop", "-", "1"]
    assert row[5].startswith("http://127.0.0.1:1/ (heard")


def test_doctor_finds_nothing_wrong_with_a_new_place(written: JobRecords) -> None:
    done = invoke("doctor")
    assert done.exit_code == 0, (done.output, done.exception)
    found = {(row[1], row[0]) for row in (line.split("\t") for line in done.output.splitlines())}
    assert {"ok"} == {level for about, level in found if about in {"rights", "clock", "checkpoint", "Java", "packages"}}
    assert ("topics", "ok") in found
    assert ("endpoints", "warning") in found
    assert invoke("doctor", "--strict").exit_code == 1


def test_doctor_finds_what_is_wrong_and_what_to_do(written: JobRecords) -> None:
    folder = written.place.folder / "checkpoint"
    folder.mkdir()
    (folder / "metadata").write_text('{"id": "ours"}')
    (folder / "checkback.json").write_text('{"state_partitions": 8, "half_topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}')
    written.claim(query_id="theirs", host=socket.gethostname(), page="")
    done = invoke("doctor", "--json")
    assert done.exit_code == 1
    found = [json.loads(line) for line in done.output.splitlines()]
    wrong = [one["said"] for one in found if one["level"] == "wrong"]
    assert [said.split(":")[0] for said in wrong] == [
        "it has state_partitions = 8, and the settings say 2",
        f"{written.topics.half} was deleted and made again since it was begun",
        "another checkpoint was the last to read these topics",
    ]
    assert all(one["todo"] for one in found if one["level"] != "ok")


def test_doctor_without_kafka_says_so_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKBACK_KAFKA__CLIENT_OPTIONS", '{"bootstrap_timeout_ms": 300}')
    done = CliRunner().invoke(app, ["doctor", "--bootstrap-server", "127.0.0.1:1"])
    assert done.exit_code == 1
    found = [line.split("\t") for line in done.output.splitlines()]
    assert [row[2].split(":")[0] for row in found if row[0] == "wrong"] == ["No Kafka answers at 127.0.0.1"]
    assert found[-1][1] == "checkpoint"


def test_tail_shows_what_comes_and_ends_at_once(written: JobRecords) -> None:
    command = [sys.executable, "-m", "checkback", "tail", "--group", "shop", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tail:
        said: list[dict[str, Any]] = []

        def read() -> None:
            said.extend(json.loads(line) for line in tail.stdout or ())

        reading = threading.Thread(target=read)
        reading.start()
        names: list[str] = []

        def seen() -> bool:
            names.append(f"tx-{len(names)}")
            written.half(names[-1])
            return bool(said)

        wait_until(seen)
        half = written.half("tx", partition=1)
        written.half("other", group="evil", partition=1)
        written.op("tx", half, Action.COMMIT)
        wait_until(lambda: any(one["kind"] == "op" for one in said))
        tail.send_signal(signal.SIGINT)
        assert tail.wait(20) == 0
        reading.join()
        assert tail.stderr is not None
        assert tail.stderr.read() == ""
    last = [one for one in said if one["half"] == str(half)]
    assert [one["what"] for one in last] == [
        f"half message of 1 byte for {written.place.real_topic}",
        "commit by producer",
    ]
    assert last[1]["topic"] == written.place.real_topic
    assert not any(one["group"] == "evil" for one in said)


def test_only_rejected_records_of_a_time_are_listed(written: JobRecords) -> None:
    for number in range(3):
        written.refused("tx", HalfPosition(0, number), "cb.op:0:1", Action.COMMIT, "it contradicts")
    assert len(lines("rejected", "--since", "1h")) == 3
    assert len(lines("rejected", "--limit", "2")) == 2
    wait_until(lambda: not lines("rejected", "--since", "1s"))


def test_the_commands_end_by_the_statuses_that_they_promise() -> None:
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # it is a group
    for name in ("status", "show", "commit", "rollback", "resume", "redeliver", "doctor"):
        assert "Exit status 0" in str(known[name].help), name
