"""What the pages show of parked messages."""

from tests.status_page.browser import Place, doubtful, given_up
from tests.status_page.pages.test_pages import text_of


def test_a_parked_message_is_shown_with_the_last_answer() -> None:
    place = Place()
    place.park(given_up(5, answer="unknown: no such order"))
    browser = place.browser()
    assert "5 B unknown: no such order resume" in text_of(browser.get("/parked").text)
    assert "checked in vain; last answer: unknown: no such order" in text_of(browser.get("/transactions/1:5").text)


def test_a_list_says_each_reason_once() -> None:
    place = Place()
    place.doubt(
        *(doubtful(number, remark="no order" if number % 3 else "busy", attempt=number) for number in range(30))
    )
    place.park(*(given_up(number, reason="too large") for number in range(30)))
    page = text_of(place.browser().get("/transactions").text)
    assert (page.count("no verdict; busy (10)"), page.count("busy"), page.count("no order")) == (1, 1, 1)
    assert page.index("tx-0 ") < page.index("tx-27 ") < page.index("tx-1 ")
    parked = text_of(place.browser().get("/parked").text)
    assert (parked.count("too large (30)"), parked.count("too large")) == (1, 1)
