"""What the row of a producer group says of its endpoints."""

import pytest

from status_page.facts import EndpointFacts, GroupFacts
from tests.status_page.browser import Place
from tests.status_page.pages.test_pages import text_of


@pytest.mark.parametrize(("state", "said"), [("well", "well: 1 endpoint well"), ("tried", "have a look: 0 of 1 well")])
def test_an_endpoint_that_failed_lately_is_not_called_well(state: str, said: str) -> None:
    place = Place(groups=(GroupFacts("shop", open=1, endpoints=(EndpointFacts("http://a:1/", state, 3.0),)),))
    assert said in text_of(place.browser().get("/groups").text)
