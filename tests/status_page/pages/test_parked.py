"""What the pages show of parked messages."""

import pytest

from tests.status_page.browser import Place, given_up
from tests.status_page.pages.test_pages import text_of


@pytest.mark.parametrize("path", ["/parked", "/transactions/1:5"])
def test_a_parked_message_is_shown_with_the_last_answer(path: str) -> None:
    place = Place()
    place.park(given_up(5, answer="unknown: no such order"))
    assert "checked in vain; last answer: unknown: no such order" in text_of(place.browser().get(path).text)
