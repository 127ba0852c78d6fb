"""What became of decisions, also after a restart of the job."""

from typing import Any

import pytest

from checkback.exceptions import KafkaUnreachableError, OperatorError
from checkback.operations.lanes import LaneFinding
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import HalfPosition
from status_page.transactions.deciding import Deciding
from status_page.transactions.reading import ListStanding
from status_page.transactions.receipts import Receipt
from tests.status_page.browser import NOW_MS, Browser, Place, target
from tests.status_page.pages.test_acting import signed_in, stuck
from tests.status_page.pages.test_pages import checked, text_of

REASON = "it contradicts the decision already taken for its half message"


class Rejections:
    """What a job has rejected, as ``KafkaReceipts`` reads it."""

    def __init__(self, rejected: dict[str, str]) -> None:
        self.rejected = rejected
        self.reads = 0
        self.whole = True
        self.fails: Exception | None = None

    def __call__(self, receipt: Receipt) -> bool:
        self.reads += 1
        if self.fails is not None:
            raise self.fails
        receipt.rejected |= self.rejected
        return self.whole


def deciding(place: Place, rejections: Rejections) -> Deciding:
    def kept(name: str) -> Receipt | None:
        return Receipt.from_record(name, place.ops.filed[int(name.split(":")[1])], NOW_MS)

    return Deciding(place.index, lambda: place.ops, lambda: NOW_MS, lambda _: place.lanes, kept, rejections)


def decided(place: Place, rejections: Rejections) -> tuple[Browser, str]:
    """Two transactions are rolled back, and both are gone from the lists."""
    place.deciding = deciding(place, rejections)
    browser = signed_in(place)
    page = target(browser.decide("rollback", "0:0 tx-0", "1:1 tx-1"))
    place.index.take_status([(HalfPosition(0, 0), None), (HalfPosition(1, 1), None)])
    return browser, page


def judged(browser: Browser, page: str) -> list[tuple[bool, str]]:
    answer: Any = browser.get(page.replace("/decided/", "/api/v1/decisions/")).json()
    return [(one["waiting"], one["rejected"]) for one in answer["transactions"]]


def test_an_op_that_lost_is_rejected_and_not_well() -> None:
    """A rollback after the transaction had been committed was shown as "Written", "judged", both with a green mark."""
    place, rejections = stuck(), Rejections({"0:0 tx-0": REASON})
    browser, page = decided(place, rejections)
    assert REASON not in text_of(browser.get(page).text)
    assert rejections.reads == 0, "none is judged"
    place.batch_ends()
    text = browser.get(page).text
    assert f"act: rejected: {REASON}" in text_of(text)
    assert "The job has rejected 1 of 2: another decision came first." in text_of(text)
    checked(text)
    assert judged(browser, page) == [(False, REASON), (False, "")]
    assert rejections.reads == 1, "it is known"


@pytest.mark.parametrize("fails", [None, OperatorError("busy")], ids=["not to its end", "not at all"])
def test_nothing_counts_as_judged_before_all_rejections_were_read(fails: Exception | None) -> None:
    place, rejections = stuck(), Rejections({"0:0 tx-0": REASON} if fails is None else {})
    rejections.whole, rejections.fails = False, fails
    browser, page = decided(place, rejections)
    place.batch_ends()
    assert judged(browser, page) == [(False, REASON) if fails is None else (True, ""), (True, "")]
    assert "for that; this page loads itself again" in browser.get(page).text
    rejections.whole, rejections.fails = True, None
    assert judged(browser, page)[1] == (False, "")
    assert rejections.reads == 3


def test_after_a_restart_of_the_job_a_receipt_is_the_same() -> None:
    place = stuck()
    place.lanes = {HalfPosition(0, 0): LaneFinding("0" * 32, LaneFact.DELIVERED)}
    browser, page = decided(place, Rejections({}))
    place.batch_ends()
    before = browser.get(page).text
    answer = browser.get(page.replace("/decided/", "/api/v1/decisions/")).json()
    rejections = Rejections({"1:1 tx-1": REASON})
    place.deciding = deciding(place, rejections)
    browser = signed_in(place)
    restarted = browser.get(page.replace("/decided/", "/api/v1/decisions/")).json()
    assert restarted["transactions"][1].pop("rejected") == REASON
    assert answer["transactions"][1].pop("rejected") == ""
    assert restarted == answer
    assert "its lane had delivered it: committed" in text_of(before)
    assert "its lane had delivered it: committed" in text_of(browser.get(page).text)
    assert rejections.reads == 1, "it is remembered again"


def test_while_the_lists_are_read_again_nothing_is_judged() -> None:
    place = stuck()
    browser, page = decided(place, Rejections({}))
    place.batch_ends()
    place.transactions.stands = ListStanding()
    assert judged(browser, page) == [(True, ""), (True, "")]


def test_a_receipt_that_kafka_does_not_take_is_one_until_the_restart(caplog: pytest.LogCaptureFixture) -> None:
    place = stuck()
    place.ops.not_filed = OperatorError("no room")
    browser, page = decided(place, Rejections({}))
    assert len(place.ops.written) == 2
    assert judged(browser, page) == [(True, ""), (True, "")]
    assert "gone after a restart of the job: no room" in caplog.text


def test_what_is_no_receipt_names_where_decisions_are() -> None:
    answer = stuck().browser().get("/decided/gone")
    assert answer.status_code == 404
    assert "There is no such decision. 'checkback audit' lists all." in text_of(answer.text)
    assert "Nothing was done" not in answer.text


def test_a_receipt_that_cannot_be_read_now_is_tried_again_later() -> None:
    place = stuck()

    def away(_: str) -> Receipt:
        raise KafkaUnreachableError("No Kafka answers at k:9092.")

    place.deciding = Deciding(place.index, lambda: place.ops, kept=away)
    browser = place.browser()
    page, answer = browser.get("/decided/0:7:x"), browser.get("/api/v1/decisions/0:7:x")
    assert (page.status_code, answer.status_code) == (503, 503)
    assert "No Kafka answers at k:9092." in text_of(page.text)
    checked(page.text)
    assert answer.json() == {"error": "No Kafka answers at k:9092."}
