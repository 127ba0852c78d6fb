"""What became of decisions."""

from checkback.wire.protocol import HalfPosition
from status_page.transactions.deciding import Deciding
from tests.status_page.browser import NOW_MS, target
from tests.status_page.pages.test_acting import signed_in, stuck
from tests.status_page.pages.test_pages import checked, text_of


def test_an_op_that_lost_is_rejected_and_not_well() -> None:
    """A rollback after the transaction had been committed was shown as "Written", "judged", both with a green mark."""
    place, read = stuck(), list[int]()
    reason = "it contradicts the decision already taken for its half message"

    def rejections(since_ms: int) -> dict[tuple[str, str, str], str]:
        read.append(since_ms)
        return {("0:0", "tx-0", "rollback"): reason, ("1:1", "tx-1", "commit"): "another operator's"}

    place.deciding = Deciding(place.index, lambda: place.ops, lambda: NOW_MS, rejections=rejections)
    browser = signed_in(place)
    answer = browser.decide("rollback", "0:0 tx-0", "1:1 tx-1")
    place.index.take_status([(HalfPosition(0, 0), None), (HalfPosition(1, 1), None)])
    assert reason not in text_of(browser.get(target(answer)).text)
    assert read == [], "none is judged"
    place.batch_ends()
    page = browser.get(target(answer))
    assert f"act: rejected: {reason}" in text_of(page.text)
    assert "The job has rejected 1 of 2: another decision came first." in text_of(page.text)
    assert "another operator" not in page.text
    assert read == [NOW_MS - 60_000]
    checked(page.text)
    receipt = target(answer).rpartition("/")[2]
    judged = browser.get(f"/api/v1/decisions/{receipt}").json()["transactions"]
    assert [(one["waiting"], one["rejected"]) for one in judged] == [(False, reason), (False, "")]


def test_a_receipt_from_before_a_restart_names_where_it_is() -> None:
    answer = stuck().browser().get("/decided/gone")
    assert answer.status_code == 404
    assert "checkback audit lists them" in text_of(answer.text)
