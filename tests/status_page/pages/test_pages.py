"""What the pages show."""

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from checkback.exceptions import KafkaUnreachableError
from status_page.facts import (
    BatchFacts,
    EndpointFacts,
    GroupFacts,
    HeldBackPartition,
    HeldMessages,
    OpenOfTopic,
    PartitionBacklog,
)
from status_page.transactions.reading import ListStanding
from status_page.transactions.transaction_story import Told
from tests.status_page.browser import NOW_MS, Place, doubtful, given_up, group, target
from tests.status_page.sample import SampleView, flow

NASTY = "<script>alert(1)</script>\"'&\u202e\x1b[2J\r\n{{ 7 * 7 }}"


def text_of(html: str) -> str:
    """What people read."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html.partition("<main")[2])).split())


class Checked(HTMLParser):
    """Finds what is not closed, ids that are there twice, labels and descriptions that lead nowhere."""

    VOID = frozenset({"meta", "link", "input", "br", "path", "circle", "rect", "line", "polygon", "polyline"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.named: list[str] = []
        self.headings: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        for name in ("for", "aria-labelledby", "aria-describedby", "list"):
            self.named += str(given.get(name) or "").split()
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag


def checked(html: str) -> None:
    found = Checked()
    found.feed(html)
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert set(found.named) <= set(found.ids), set(found.named) - set(found.ids)
    assert found.headings.count(1) == 1


def busy(**facts: Any) -> Place:
    endpoints = (
        EndpointFacts("http://a:1/check", "skipped", 3.0, "connection refused"),
        EndpointFacts("http://b:1", "tried"),
    )
    oldest = (OpenOfTopic("shop.orders", 3, NOW_MS - 60_000),)
    batch = BatchFacts(12, NOW_MS - 400, 0.41, {"read": 0.1, "write": 0.3}, 187, 455.5)
    given = {
        "batch": batch,
        "notes": ("Look at payments.",),
        "groups": (GroupFacts("orders", 3, 2_048, 1, 1, oldest, endpoints, 4, "too much is open"), group("quiet")),
        "backlog": (PartitionBacklog("cb.half", 0, 12),),
        "held_back": (HeldBackPartition("cb.op", 1, 30.0),),
        "held": tuple(HeldMessages(f"shop.{at}", 3, "no <such> topic", NOW_MS + 40_000) for at in range(21)),
        "flow": flow(NOW_MS),
        **facts,
    }
    place = Place(**given)
    place.doubt(*map(doubtful, range(3)), doubtful(7, group="mail", topic="shop.mail"))
    place.park(given_up(1), given_up(2, undecided=False), given_up(3, undecided=False, kept=False))
    place.story = [Told(NOW_MS, "half message", "5 bytes", "cb.half:0:0"), Told(0, "committed")]
    return place


PATHS = (
    *("/", "/transactions", "/transactions?group=mail&older_than=1s", "/transactions?id=tx", "/transactions/0:0"),
    *("/transactions/0:0/story", "/transactions/1:1", "/transactions/3:3", "/transactions/9:9", "/parked"),
    *(
        "/parked?id=2:2",
        "/groups",
        "/groups?group=qui",
        "/sign-in",
        "/nowhere",
        "/?refresh=off",
        "/transactions?limit=1",
    ),
)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("signed_in", [False, True])
def test_each_page_is_sound(path: str, signed_in: bool) -> None:  # noqa: FBT001  (a parameter's)
    browser = busy().browser()
    if signed_in:
        browser.sign_in()
    answer = browser.get(path)
    assert answer.status_code == (404 if path in {"/nowhere", "/transactions/9:9"} else 200)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    checked(answer.text)
    assert '<a class="skip" href="#main">' in answer.text
    assert '<html lang="en">' in answer.text


def test_pages_of_a_job_that_has_just_started_are_sound() -> None:
    browser = Place().browser()
    for path in ("/", "/transactions", "/parked", "/groups"):
        checked(browser.get(path).text)
    assert "No batch has ended yet" in browser.get("/").text
    assert "None so far: no batch has ended since the job" in browser.get("/transactions").text
    assert "No transaction in doubt fits these filters." in browser.get("/transactions?group=x").text


def test_that_no_group_is_known_yet_is_not_that_nothing_has_come() -> None:
    batch = BatchFacts(7, NOW_MS, 0.1)
    said_when: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "Not known yet: no batch has ended since the start."),
        ({"batch": batch}, "Not known yet: what is open has not been counted since the start."),
        ({"batch": batch, "counted": True}, "No producer group is known: nothing has come yet."),
    )
    for known, said in said_when:
        page = text_of(Place(**known).browser().get("/groups").text)
        assert said in page
        assert ("0 producer groups" in page) == ("counted" in known)


def test_of_endpoints_that_are_not_known_yet_nothing_is_said() -> None:
    for known in (False, True):
        groups = GroupFacts("shop", open=1), GroupFacts("mail", open=1, topics=(OpenOfTopic("orders", 1, NOW_MS),))
        page = text_of(Place(groups=groups, counted=True, endpoints_known=known).browser().get("/groups").text)
        assert ("not known yet" in page) != known
        assert ("no endpoint" in page) == known


def test_the_first_page_answers_four_questions_and_says_why() -> None:
    page = text_of(busy().browser().get("/").text)
    assert page.index("Look at payments.") < page.index("Do transactions flow?")
    assert "Which are in doubt? well: 4 The oldest one was taken in 1 min ago." in page
    assert "Is anything parked? act: 3 Messages wait for an operator's decision." in page
    why = "Asked 2 times of 15, no verdict; its producers did not know"
    assert f"orders shop.orders 3 of orders for shop.orders 1 min {why}" in page
    assert "Batch 12, ended just now" in page
    assert "read 100 ms" in page
    assert "cb.op 1 not known for 30 s, by an open Kafka transaction" in page


def test_the_first_page_names_the_cause_of_each_group_that_is_stuck() -> None:
    late, busy_ = "http://a:1/: no complete answer in time", "order table is locked"
    skipped = f"endpoint skipped: {late}"
    place = Place(
        groups=(
            GroupFacts("hangs", endpoints=(EndpointFacts("http://a:1/", "skipped", reason=late),), unasked=skipped),
            GroupFacts("unknown", endpoints=(EndpointFacts("http://b:1/", "well"),)),
        ),
        endpoints_known=True,
        batch=BatchFacts(12, NOW_MS - 300, 0.4),
        held=(HeldMessages("shop.late", 5_000, "there is no such topic", NOW_MS + 40_000),),
    )
    missed = {"last_answer": "unreachable", "attempt": 1, "misses": 7, "answered_ms": NOW_MS}
    place.doubt(*(doubtful(n, group="hangs", remark=late) for n in range(4)))
    place.doubt(*(doubtful(n, group="unknown", remark=busy_, answered_ms=NOW_MS) for n in range(4, 7)))
    place.doubt(*(doubtful(n, group="noend", **missed) for n in range(7, 9)))
    page = text_of(place.browser().get("/").text)
    assert f"Nobody can be asked; {skipped}" in page
    assert f"Asked 3 times of 15, no verdict; {busy_}" in page
    assert "Nobody could be asked; no endpoint: none is announced" in page
    assert "Do transactions flow? have a look: Not all 5,000 committed messages held" in page
    assert "shop.late 5,000 have a look: there is no such topic in 40 s" in page
    assert "9 Nobody to ask in group hangs (endpoint skipped) and 1 other." in page
    assert "not asked yet: nobody reachable, 7 tries" in text_of(place.browser().get("/transactions?group=noend").text)


def test_a_check_within_the_second_is_due() -> None:
    place = Place()
    place.doubt(doubtful(1, group="orders", next_check_ms=NOW_MS + 999))
    place.doubt(doubtful(2, group="points", next_check_ms=NOW_MS + 1_000))
    assert " due now " in text_of(place.browser().get("/transactions?group=orders").text)
    assert " in 1 s " in text_of(place.browser().get("/transactions?group=points").text)


def test_a_row_has_all_that_is_known() -> None:
    page = text_of(busy().browser().get("/transactions?group=mail").text)
    why = "Asked, no verdict; its producers did not know (1)"
    assert f"{why} tx-7 3:7 mail shop.mail 59 s 3 of 15 10 s ago in 20 s" in page


def test_exact_times_are_there() -> None:
    page = busy().browser().get("/transactions").text
    assert '<time datetime="2027-01-15T07:59:00Z" title="since 2027-01-15 07:59:00 UTC">1 min</time>' in page
    assert "2027-01-15 07:59:00 UTC" in text_of(busy().browser().get("/transactions/0:0").text)


def test_a_detail_tells_who_is_asked_and_its_story() -> None:
    browser = busy().browser()
    page = text_of(browser.get("/transactions/0:0").text)
    assert "http://a:1/check skipped: connection refused, heard 3.0 s ago" in page
    assert "http://b:1 asked with the next check, from the settings" in page
    assert "4 checks of this group wait, or are under way." in page
    assert "Read it from Kafka" in page
    told = text_of(browser.get("/transactions/0:0/story").text)
    assert "2027-01-15 08:00:00 UTC half message 5 bytes cb.half:0:0 committed" in told


def test_a_story_that_cannot_be_told_is_no_error_page() -> None:
    place = busy()
    place.story = KafkaUnreachableError("No Kafka answers at k:9092.")
    answer = place.browser().get("/transactions/0:0/story")
    assert answer.status_code == 200
    assert "No Kafka answers at k:9092." in answer.text
    place.story = None
    assert place.browser().get("/transactions/0:0/story").status_code == 404


def test_what_is_parked_says_what_can_be_done() -> None:
    page = text_of(busy().browser().get("/parked").text)
    assert "checked in vain (1) px-1 1:1 orders shop.orders 1 h ago 5 B none resume, commit, roll back" in page
    why = "committed, but not deliverable to shop.orders: too large (2)"
    assert f"{why} px-2 2:2 orders shop.orders 1 h ago 5 B none redeliver" in page
    assert "only by hand" in page
    detail = text_of(busy().browser().get("/transactions/1:1").text)
    assert "Kept until 2027-01-22 07:00:00 UTC" in detail


def test_an_id_leads_to_its_transaction() -> None:
    browser = busy().browser()
    assert target(browser.get("/transactions/tx-2")) == "/transactions/2:2"
    assert target(browser.get("/transactions/px-2")) == "/transactions/2:2"
    assert target(browser.get("/transactions/tx")) == "/transactions?id=tx"
    assert target(browser.get("/transactions/a/b?c")) == "/transactions?id=a%2Fb"


def test_two_transactions_with_one_id_are_both_listed() -> None:
    place = Place()
    place.doubt(doubtful(1, transaction_id="same"), doubtful(2, transaction_id="same", group="evil"))
    browser = place.browser()
    assert target(browser.get("/transactions/same")) == "/transactions?id=same"
    page = text_of(browser.get("/transactions?id=same").text)
    assert "same 1:1 orders" in page
    assert "same 2:2 evil" in page


def test_pages_of_a_list_lead_to_one_another() -> None:
    place = Place()
    place.doubt(*map(doubtful, range(5)))
    browser = place.browser()
    page = browser.get("/transactions?limit=2&group=orders").text
    onward = re.search(r'rel="next" href="([^"]*)"', page)
    assert onward
    assert "group=orders" in onward[1]
    second = browser.get(onward[1].replace("&amp;", "&")).text
    assert 'rel="prev"' in second


def test_text_of_others_is_shown_and_does_nothing() -> None:
    place = Place(
        notes=(NASTY,),
        job=NASTY,
        checkpoint=NASTY,
        groups=(GroupFacts(NASTY, 1, endpoints=(EndpointFacts(NASTY, "skipped", None, NASTY),), barred=NASTY),),
    )
    place.story = [Told(NOW_MS, NASTY, NASTY, NASTY)]
    place.doubt(doubtful(1, transaction_id=NASTY, group=NASTY, topic=NASTY, last_answer=NASTY))
    place.park(given_up(2, transaction_id=NASTY, group=NASTY, topic=NASTY, reason=NASTY))
    browser = place.browser()
    browser.sign_in()
    paths = ("/", "/transactions", "/parked", "/groups", "/transactions/1:1", "/transactions/2:2")
    pages = [browser.get(path).text for path in (*paths, "/transactions/1:1/story")]
    pages.append(browser.get("/decide", params={"action": "commit", "what": f"1:1 {NASTY}"}).text)
    pages.append(browser.get("/transactions", params={"id": NASTY, "group": NASTY, "topic": NASTY}).text)
    for page in pages:
        checked(page)
        assert "<script>alert" not in page
        assert "\\u202e" in page
        assert not set(page) & {"\u202e", "\x1b", "\r"}
        assert "{{ 7 * 7 }}" in page


def test_a_reader_may_pause_what_loads_itself() -> None:
    browser = busy().browser()
    for path in ("/", "/groups", "/transactions", "/parked"):
        page = browser.get(path).text
        assert '<meta http-equiv="refresh" content="10">' in page
        assert f'<a href=".{path}?refresh=off">Pause</a>' in page
        paused = browser.get(f"{path}?refresh=off").text
        assert "http-equiv" not in paused
        assert f'<a href=".{path}">Load itself again</a>' in paused
    assert "http-equiv" not in browser.get("/transactions/0:0").text
    browser.sign_in()
    assert "http-equiv" not in browser.get("/transactions").text, "it would clear what somebody has ticked"


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        (ListStanding(complete=True), ""),
        (ListStanding(behind=12_345), "they are still being read, with 12,345 records to go"),
        (
            ListStanding(problem="Kafka has no topic cb.status: run 'checkback topics create'."),
            "Kafka has no topic cb.status",
        ),
        (ListStanding(complete=True, away_seconds=75.0, problem="x"), "Kafka has not answered for 1 min 15 s."),
    ],
)
def test_the_page_says_how_far_its_lists_can_be_relied_on(standing: ListStanding, said: str) -> None:
    place = busy()
    place.transactions.stands = standing
    for path in ("/", "/transactions", "/parked", "/groups", "/transactions/0:0"):
        page = place.browser().get(path).text
        assert (said in page) if said else ("The lists of transactions" not in page)


def test_a_wrong_filter_is_told_so() -> None:
    answer = busy().browser().get("/transactions?older_than=soon")
    assert answer.status_code == 400
    assert "older_than must be a duration with its unit" in answer.text


def test_groups_can_be_searched_and_paged() -> None:
    place = Place(groups=tuple(group(f"g{number:03}") for number in range(150)), counted=False)
    browser = place.browser()
    first = browser.get("/groups").text
    assert "150 producer groups" in first
    assert "g099" in first
    assert "g100" not in first
    assert "The job counts what is open" in first
    assert "g100" in browser.get("/groups?from=100").text
    assert text_of(browser.get("/groups?group=14").text).count("g14") == 10
    assert browser.get("/groups?from=x").status_code == 200


def test_checks_that_are_asked_elsewhere_are_said_to_be() -> None:
    place = busy(checks_in_job=False)
    assert "processes of its own" in place.browser().get("/transactions/0:0").text
    assert "elsewhere" in place.browser().get("/groups").text


def test_metrics_are_served_in_the_format_that_is_asked_for() -> None:
    browser = Place().browser()
    plain = browser.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert "checkback_things_total 1.0" in plain.text
    openmetrics = browser.get("/metrics", headers={"accept": "application/openmetrics-text"})
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert openmetrics.text.endswith("# EOF\n")
    assert "checkback_things" not in browser.get("/metrics?name[]=nothing").text


def test_health_says_which_job_it_is() -> None:
    assert busy().browser().get("/healthz").json() == {"job": "shop", "version": "1.2.3", "batch": 12}


def test_the_sample_shows_every_page() -> None:
    facts = SampleView().facts()
    place = busy()
    place.view.facts_given = facts
    checked(place.browser().get("/").text)
