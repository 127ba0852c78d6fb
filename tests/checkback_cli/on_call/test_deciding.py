"""What whoever is on call decides, as the commands do it."""

import json
import threading
from collections.abc import Callable

import pytest

from checkback.kafka.topic_reading import reading_consumer, records_as_they_come
from checkback.wire import protocol
from checkback.wire.protocol import Action, HalfPosition
from checkback_cli.on_call import decide
from tests.checkback_cli.on_call.scene import invoke, objects, refusal
from tests.job_records import JobRecords, now_ms
from tests.place import Place


def operators_ops(place: Place) -> list[tuple[str, str, dict[str, str]]]:
    found = [(dict(record.headers), record.value) for record in place.read(place.topics.op)]
    return [
        (headers[protocol.HALF].decode(), headers[protocol.ACTION].decode(), json.loads(value))
        for headers, value in found
        if headers[protocol.SOURCE] == b"operator"
    ]


def test_a_transaction_in_doubt_is_committed_with_who_and_why(written: JobRecords) -> None:
    half = written.half("tx")
    written.in_doubt("tx", half)
    done = invoke("commit", "tx", "--yes", "--who", "ada", "--why", "the shop's database has it")
    assert done.exit_code == 0, (done.output, done.exception)
    assert "commit: 1 written." in done.output
    remark = {"who": "ada", "why": "the shop's database has it", "by": "checkback commit"}
    assert operators_ops(written.place) == [(str(half), "commit", remark)]
    (story,) = objects("show", "tx")
    assert (story["stands"], story["why"]) == ("committed", "by operator ada; the job has not taken that in yet")
    (told,) = objects("audit", "--kind", "decision")
    assert (told["who"], told["halves"], told["not_taken"]) == ("ada", str(half), 0)
    written.refused("tx", half, "cb.op:0:0", Action.COMMIT, "it is signed with another key")
    (told,) = objects("audit")
    assert told["not_taken"] == 1


def test_all_of_a_group_that_are_old(written: JobRecords) -> None:
    places = {}
    for name, group, age_ms in (("a", "shop", 7_200_000), ("b", "shop", 0), ("c", "evil", 7_200_000)):
        places[name] = written.half(name, group=group)
        written.in_doubt(name, places[name], group=group, ingested_ms=now_ms() - age_ms)
    lost = written.half("lost")
    written.parked("lost", lost, "undecided for longer than the age limit")
    done = invoke("rollback", "--all", "--group", "shop", "--older-than", "1h", "--yes", "--why", "gone")
    assert done.exit_code == 0, (done.output, done.exception)
    assert [half for half, _, _ in operators_ops(written.place)] == [str(places["a"])]
    assert invoke("resume", "--all", "--group", "shop", "--yes", "--why", "back").exit_code == 0
    assert operators_ops(written.place)[-1][:2] == (str(lost), "resume")
    assert "nothing was done" in invoke("redeliver", "--all", "--group", "shop", "--yes", "--why", "x").output


def test_one_that_was_never_checked_is_named_by_its_place(written: JobRecords) -> None:
    half, over = written.half("fresh"), written.half("over")
    written.op("over", over, Action.COMMIT)
    written.delivered("over")
    assert "Neither in doubt nor parked: fresh." in refusal("commit", "fresh", "--yes", "--why", "x")
    assert "there is nothing to do about it" in refusal("commit", "--half", str(over), "--yes", "--why", "x")
    assert operators_ops(written.place) == []
    assert invoke("rollback", "--half", str(half), "--yes", "--why", "x").exit_code == 0
    assert [one[:2] for one in operators_ops(written.place)] == [(str(half), "rollback")]


@pytest.mark.parametrize(
    "arguments",
    [
        ["commit"],
        ["commit", "tx"],
        ["commit", "tx", "--yes"],
        ["commit", "tx", "--all", "--yes", "--why", "x"],
        ["commit", "--all", "--yes", "--why", "x"],
        ["commit", "--half", "tx", "--yes", "--why", "x"],
        ["commit", "tx", "--yes", "--why", 600 * "x"],
        ["commit", "tx", "--yes", "--why", "x", "--wait", "soon"],
    ],
)
def test_wrong_arguments_or_nobody_to_ask_is_status_2(arguments: list[str]) -> None:
    assert invoke(*arguments).exit_code == 2


def test_on_a_terminal_it_asks(written: JobRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "on_a_terminal", lambda: True)
    half = written.half("tx")
    written.in_doubt("tx", half)
    for said, status in (("n\n", 1), ("y\nit is paid\n", 0)):
        done = invoke("commit", "tx", "--wait", "0s", given=said)
        assert done.exit_code == status, (done.output, done.exception)
        assert "Commit this transaction?" in done.output
        assert [remark["why"] for _, _, remark in operators_ops(written.place)] == ["it is paid"] * (not status)


def as_the_job(written: JobRecords, then: Callable[[str, HalfPosition], None]) -> threading.Event:
    """Do this, once, when an operator's op comes; gives what stops the waiting for it."""
    stopping = threading.Event()
    consumer = reading_consumer(written.place.bootstrap_servers)

    def run() -> None:
        for record in records_as_they_come(consumer, written.topics.op, stopping.is_set):
            headers = dict(record.headers)
            if headers[protocol.SOURCE] == b"operator":
                then(
                    f"{record.topic}:{record.partition}:{record.offset}",
                    HalfPosition.parse(headers[protocol.HALF].decode()),
                )
                break
        consumer.close()

    threading.Thread(target=run, daemon=True).start()
    return stopping


def test_waiting_says_where_it_was_delivered(written: JobRecords) -> None:
    half = written.half("tx")
    written.in_doubt("tx", half)

    def deliver(_: str, place: HalfPosition) -> None:
        written.delivered("tx")
        written.decided(place)

    stop = as_the_job(written, deliver)
    done = invoke("commit", "tx", "--yes", "--why", "x", "--wait", "30s")
    stop.set()
    assert done.exit_code == 0, (done.output, done.exception)
    assert f"tx at {half}: delivered: {written.place.real_topic}:" in done.output


def test_waiting_says_that_somebody_was_faster(written: JobRecords) -> None:
    half = written.half("tx")
    written.in_doubt("tx", half)
    written.op("tx", half, Action.ROLLBACK)

    def refuse(op: str, place: HalfPosition) -> None:
        written.decided(place)
        written.refused("tx", place, op, Action.COMMIT, "it contradicts the decision already taken")

    stop = as_the_job(written, refuse)
    done = invoke("commit", "tx", "--yes", "--why", "x", "--wait", "30s")
    stop.set()
    assert done.exit_code == 1, (done.output, done.exception)
    assert "rolled back: by producer" in done.output or "it contradicts" in done.output


@pytest.mark.parametrize(("refuses", "status"), [(True, 1), (False, 0), (None, 75)])
def test_waiting_for_one_that_was_never_checked(written: JobRecords, *, refuses: bool | None, status: int) -> None:
    half = written.half("fresh")

    def judge(op: str, place: HalfPosition) -> None:
        topic, partition, offset = op.split(":")
        if refuses:
            written.refused("fresh", place, op, Action.COMMIT, "its group may not send there")
        elif refuses is False:
            written.delivered("fresh")
        if refuses is not None:
            written.read_to({(topic, int(partition)): int(offset) + 1})

    stop = as_the_job(written, judge)
    done = invoke("commit", "--half", str(half), "--yes", "--why", "x", "--wait", "3s" if refuses is None else "30s")
    stop.set()
    assert done.exit_code == status, (done.output, done.exception)
    said = {1: "its group may not send there", 0: f"fresh at {half}: delivered", 75: "1 not ended yet: fresh."}
    assert said[status] in done.output


def test_waiting_in_vain_is_to_be_tried_again(written: JobRecords) -> None:
    half = written.half("tx")
    written.parked("tx", half, "too old")
    done = invoke("resume", "tx", "--yes", "--why", "x", "--wait", "500ms")
    assert done.exit_code == 75
    assert "1 not ended yet: tx." in done.output
