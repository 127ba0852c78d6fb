"""Which endpoints are live, and in which order they are asked."""

import time
from typing import Any

import pytest

from checkback.wire.checks import Announcement, announcement_key
from checkers.announcers import Belief
from checkers.directory import NOT_TAKEN, EndpointDirectory, group_standing
from checkers.facts import GroupStanding

TTL_MS = 1_000
WRONG = [
    *(b'"batch": 0}', b'"batch": "10"}', b'"batch": 1.5}', b'"batch": true}', b'"batch": null}'),
    *(b'"topics": "paid"}', b'"topics": [1]}', b'"topics": {}}'),
]
ONE, TWO, FIXED = "http://one/", "http://two/", "http://fixed/"


def directory(**fixed: list[str]) -> EndpointDirectory:
    return EndpointDirectory(fixed, TTL_MS, beside_fixed=True)


def hear(heard: EndpointDirectory, group: str, instance: str, url: str, now_ms: int) -> None:
    # the announcing clock is far off: nothing may be decided by it
    heard.hear(*Announcement(group, instance, url, time_ms=-1).to_record(), now_ms)


def urls(heard: EndpointDirectory, group: str, now_ms: int, topic: str = "paid") -> list[str]:
    return [endpoint.url for endpoint in heard.endpoints(group, topic, now_ms)]


def test_nobody_is_known_at_first() -> None:
    assert urls(directory(), "orders", 0) == []


def test_an_announced_endpoint_is_its_own_groups() -> None:
    heard = directory()
    hear(heard, "orders", "a", ONE, 0)
    assert urls(heard, "orders", 0) == [ONE]
    assert urls(heard, "invoices", 0) == []


def test_the_one_heard_from_last_comes_first() -> None:
    heard = directory()
    hear(heard, "orders", "a", ONE, 1)
    hear(heard, "orders", "b", TWO, 2)
    assert urls(heard, "orders", 3) == [TWO, ONE]
    hear(heard, "orders", "a", ONE, 3)
    assert urls(heard, "orders", 3) == [ONE, TWO]


def test_for_which_topics_somebody_can_be_asked() -> None:
    heard = directory()

    def standing(*skipped: str) -> tuple[list[str], tuple[str, ...] | None]:
        found = group_standing(heard, "orders", 5, lambda url: ("skipped" if url in skipped else "well", ""))
        return [one.url for one in found.endpoints], found.topics

    def announce(instance: str, url: str, *topics: str) -> None:
        heard.hear(*Announcement("orders", instance, url, 0, topics=topics or None).to_record(), 1)

    announce("a", ONE, "paid")
    assert standing() == ([ONE], ("paid",))
    announce("b", ONE, "late")
    announce("c", TWO, "sent")
    assert standing() == ([TWO, ONE], ("late", "paid", "sent"))
    assert standing(TWO) == ([TWO, ONE], ("late", "paid"))
    announce("d", TWO)
    assert standing() == ([TWO, ONE], None)
    assert standing(TWO)[1] == ("late", "paid")
    assert standing(ONE, TWO)[1] == ()
    announce("e", ONE, *map(str, range(200)))
    assert standing(TWO)[1] is None, "of so many nothing is said"
    assert group_standing(directory(orders=[FIXED]), "orders", 5).topics is None
    assert group_standing(directory(), "orders", 5) == GroupStanding(0, 0, ())


def test_a_password_in_an_address_is_for_asking_and_not_for_people() -> None:
    url = "http://shop:secret@one/?token=secret"
    heard = directory()
    hear(heard, "orders", "a", url, 0)
    assert urls(heard, "orders", 5) == [url]
    (live,) = group_standing(heard, "orders", 5).endpoints
    assert live.url == "http://shop:**********@one/?token=**********"
    assert urls(heard, "orders", TTL_MS) == []
    (gone,) = group_standing(heard, "orders", TTL_MS).endpoints
    assert (gone.state, gone.url) == ("skipped", live.url)


def test_at_most_20_endpoints_are_shown_and_the_topics_of_all() -> None:
    heard = directory()
    for number in range(25):
        announced = Announcement("orders", str(number), f"http://{number}/", 0, topics=(f"{number:02}",))
        heard.hear(*announced.to_record(), 1)
    found = group_standing(heard, "orders", 5)
    assert (len(found.endpoints), len(found.topics or ())) == (20, 25)


def test_without_a_heartbeat_it_is_asked_no_longer() -> None:
    heard = directory()
    hear(heard, "orders", "a", ONE, 50)
    assert urls(heard, "orders", 50 + TTL_MS - 1) == [ONE]
    assert urls(heard, "orders", 50 + TTL_MS) == []


def test_a_heartbeat_keeps_it_alive() -> None:
    heard = directory()
    hear(heard, "orders", "a", ONE, 0)
    hear(heard, "orders", "a", ONE, TTL_MS - 1)
    assert urls(heard, "orders", 2 * TTL_MS - 2) == [ONE]


def test_a_silent_one_may_come_back() -> None:
    heard = directory()
    hear(heard, "orders", "a", ONE, 0)
    assert urls(heard, "orders", TTL_MS) == []
    hear(heard, "orders", "a", ONE, 5 * TTL_MS)
    assert urls(heard, "orders", 5 * TTL_MS) == [ONE]


def test_a_new_address_replaces_the_old_one() -> None:
    heard = directory()
    hear(heard, "orders", "a", ONE, 0)
    hear(heard, "orders", "a", TWO, 1)
    assert urls(heard, "orders", 1) == [TWO]


def test_a_tombstone_takes_one_instance_back() -> None:
    heard = directory()
    hear(heard, "orders", "a", ONE, 0)
    hear(heard, "orders", "b", TWO, 0)
    heard.hear(announcement_key("orders", "a"), None, 1)
    assert urls(heard, "orders", 1) == [TWO]


def test_a_tombstone_of_somebody_never_heard_of_is_harmless() -> None:
    heard = directory()
    heard.hear(announcement_key("orders", "a"), None, 0)
    assert urls(heard, "orders", 0) == []


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"not json",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b'{"group": "orders", "instance": "a", "url": "http://x/"}',
        b'{"group": "orders", "instance": "a", "url": "http://x/", "time_ms": "soon"}',
        b'{"group": "orders", "instance": "a", "url": "http://x/", "time_ms": []}',
        b'{"group": "orders", "instance": "a", "url": "http://x/", "time_ms": Infinity}',
        *(b'{"group": "g", "instance": "a", "url": "http://x/", "time_ms": 1, ' + rest for rest in WRONG),
        b"[" * 100_000,
    ],
    ids=lambda value: repr(value[-20:]) if len(value) < 100 else "deep",
)
def test_an_unreadable_announcement_takes_back_what_was_there(value: bytes) -> None:
    heard = directory()
    hear(heard, "orders", "a", ONE, 0)
    hear(heard, "orders", "b", TWO, 0)
    heard.hear(announcement_key("orders", "a"), value, 1)
    assert urls(heard, "orders", 1) == [TWO]


def test_fixed_endpoints_never_grow_old_and_come_last_in_their_order() -> None:
    heard = directory(orders=[FIXED, ONE])
    assert urls(heard, "orders", 10**15) == [FIXED, ONE]
    hear(heard, "orders", "b", TWO, 10**15)
    assert urls(heard, "orders", 10**15) == [TWO, FIXED, ONE]
    assert urls(heard, "invoices", 10**15) == []


def test_nobody_is_asked_twice() -> None:
    heard = directory(orders=[FIXED, ONE])
    hear(heard, "orders", "a", ONE, 0)
    hear(heard, "orders", "b", ONE, 1)
    assert urls(heard, "orders", 1) == [ONE, FIXED]


def test_of_a_group_with_fixed_ones_nobody_else_is_asked_unless_the_settings_say_so() -> None:
    heard = EndpointDirectory({"orders": [FIXED]}, TTL_MS)
    hear(heard, "orders", "a", ONE, 0)
    hear(heard, "bills", "b", TWO, 0)
    assert (urls(heard, "orders", 1), urls(heard, "bills", 1)) == ([FIXED], [TWO])
    key = announcement_key("bills", "b")
    heard.hear(key, Announcement("orders", "b", ONE, 0).to_record()[1], 1)  # what it was is taken back all the same
    assert (urls(heard, "orders", 1), urls(heard, "bills", 1)) == ([FIXED], [])


class Believing(Belief):
    """Of these groups, with this limit for all of them together."""

    def __init__(self, *groups: str, most: int | None = None) -> None:
        self.groups, self.most = groups, most
        self.said: list[tuple[str, str]] = []

    def refusal(self, group: str) -> str:
        return "" if group in self.groups else "not signed"

    def limits(self, group: str) -> dict[str, int]:
        return {} if self.most is None else {"shop": self.most}

    def passed_over(self, group: str, why: str) -> None:
        self.said.append((group, why))


def test_an_account_has_no_more_announced_than_its_limit_whatever_its_groups_are_called() -> None:
    heard, belief = directory(), Believing("a", "b", "c", most=2)
    for group in ("a", "b", "c", "a"):
        heard.hear(*Announcement(group, "1", ONE, 0).to_record(), 0, belief)
    assert [urls(heard, group, 1) for group in "abc"] == [[ONE], [ONE], []]
    assert belief.said == [("c", "account shop has its limits.endpoints = 2 announced")]
    heard.hear(announcement_key("a", "1"), None, 1, belief)
    heard.hear(*Announcement("c", "1", TWO, 0).to_record(), 1, belief)
    assert [urls(heard, group, 2) for group in "abc"] == [[], [ONE], [TWO]]
    later = TTL_MS  # b has lapsed
    heard.hear(*Announcement("a", "1", TWO, 0).to_record(), later, belief)
    assert [urls(heard, group, later) for group in "abc"] == [[TWO], [], [TWO]]
    heard.hear(*Announcement("b", "1", TWO, 0).to_record(), later, belief)
    standing = group_standing(heard, "b", later).endpoints[0]
    assert (standing.url, standing.state, standing.heard_seconds) == (TWO, "skipped", 0.0)
    assert standing.reason == f"{NOT_TAKEN}: account shop has its limits.endpoints = 2 announced"
    belief.most = None
    heard.hear(*Announcement("b", "1", TWO, 0).to_record(), later, belief)
    assert urls(heard, "b", later) == [TWO]
    assert group_standing(heard, "b", later).endpoints[0].state == "well"


def test_a_limit_that_is_lowered_drops_nobody_who_goes_on_announcing_himself() -> None:
    heard, belief = directory(), Believing("a", "b", "c", "d")
    for group in "abc":
        heard.hear(*Announcement(group, "1", ONE, 0).to_record(), 0, belief)
    belief.most = 1
    for group in "dcab":
        heard.hear(*Announcement(group, "1", TWO, 0).to_record(), 1, belief)
    assert [urls(heard, group, 2) for group in "abcd"] == [[TWO], [TWO], [TWO], [TWO]]
    heard.hear(*Announcement("e", "1", TWO, 0).to_record(), 2, Believing("e", most=1))
    assert urls(heard, "e", 3) == []


def test_what_is_not_believed_of_a_group_changes_nothing_of_it() -> None:
    heard, belief = directory(), Believing("bills")
    hear(heard, "orders", "a", ONE, 0)
    hear(heard, "bills", "b", TWO, 0)
    for key, value in (
        Announcement("orders", "c", TWO, 0).to_record(),
        Announcement("orders", "a", TWO, 0).to_record(),
        (announcement_key("orders", "a"), None),
        (announcement_key("orders", "a"), b"{"),
    ):
        heard.hear(key, value, 1, belief)
        assert (urls(heard, "orders", 1), urls(heard, "bills", 1)) == ([ONE], [TWO])
    heard.hear(announcement_key("bills", "b"), None, 1, belief)
    assert urls(heard, "bills", 1) == []


def test_whoever_announces_under_anothers_key_keeps_nobody_from_his() -> None:
    heard = directory()

    key, value = Announcement("orders", "a", ONE, 0).to_record()
    heard.hear(key, value, 0, Believing("orders"))
    for now_ms in range(0, 3 * TTL_MS, TTL_MS // 3):
        heard.hear(key, Announcement("bills", "a", TWO, 0).to_record()[1], now_ms, Believing("bills"))
        if now_ms > TTL_MS:  # it had lapsed meanwhile
            heard.hear(key, value, now_ms, Believing("orders"))
            assert urls(heard, "orders", now_ms) == [ONE]
        assert urls(heard, "bills", now_ms) == [TWO]
    heard.hear(key, None, 3 * TTL_MS, Believing("bills"))
    assert (urls(heard, "orders", 3 * TTL_MS), urls(heard, "bills", 3 * TTL_MS)) == ([ONE], [])


def test_the_settings_given_may_change_without_effect() -> None:
    fixed = {"orders": [FIXED]}
    heard = EndpointDirectory(fixed, TTL_MS)
    fixed["orders"].append(ONE)
    assert urls(heard, "orders", 0) == [FIXED]


def said(instance: str, url: str, **more: Any) -> tuple[bytes, bytes]:
    return Announcement("orders", instance, url, 1, **more).to_record()


def test_how_many_it_takes_at_once_is_announced_and_bounded() -> None:
    heard = directory(orders=[FIXED])
    heard.hear(*said("a", ONE, batch=100), 1)
    heard.hear(*said("b", TWO, batch=10**9), 2)
    assert list(heard.endpoints("orders", "paid", 3)) == [(TWO, 100), (ONE, 100), (FIXED, 1)]


def test_one_for_some_topics_is_asked_about_those_only() -> None:
    heard = directory(orders=[FIXED])
    heard.hear(*said("a", ONE, topics=("paid", "shipped")), 1)
    heard.hear(*said("b", TWO, topics=()), 2)
    assert urls(heard, "orders", 3, "paid") == urls(heard, "orders", 3, "shipped") == [ONE, FIXED]
    assert urls(heard, "orders", 3, "returned") == [FIXED]


def test_without_topics_it_is_asked_about_all() -> None:
    heard = directory()
    heard.hear(*said("a", ONE), 1)
    assert urls(heard, "orders", 1, "whatever") == [ONE]


def test_one_key_may_change_its_group() -> None:
    heard = directory()
    key, value = said("a", ONE)
    heard.hear(key, value, 1)
    heard.hear(key, value.replace(b"orders", b"bills"), 2)
    assert urls(heard, "orders", 2) == []
    assert urls(heard, "bills", 2) == [ONE]


def test_the_old_ones_are_forgotten() -> None:
    heard = directory()
    for number in range(100):
        heard.hear(*said(str(number), f"http://{number}/"), number)
    assert urls(heard, "orders", 99 + TTL_MS) == []
    for number in range(100, 125):  # of another group
        hear(heard, "bills", "a", ONE, number + TTL_MS)
    assert list(heard._announced) == ["bills"]
    assert len(heard._heard[0]) == len(heard._groups_of) == 1


def test_of_a_group_so_many_are_known_those_heard_from_last() -> None:
    heard = EndpointDirectory({}, TTL_MS, per_group=2)
    for name in "abc":
        hear(heard, "orders", name, f"http://{name}/", 0)
    hear(heard, "bills", "a", ONE, 0)
    assert urls(heard, "orders", 0) == ["http://c/", "http://b/"]
    assert urls(heard, "bills", 0) == [ONE]


def test_a_group_that_announces_without_end_takes_no_room_from_others() -> None:
    heard = EndpointDirectory({}, TTL_MS, bytes_in_all=100_000)
    for number in range(1_000):
        hear(heard, "orders", str(number), f"http://{number}/", 0)
    for number in range(3):
        hear(heard, "bills", str(number), f"http://{number}/", 0)
    assert 10 < len(urls(heard, "orders", 0)) < 100
    assert urls(heard, "orders", 0)[0] == "http://999/"
    assert len(urls(heard, "bills", 0)) == 3


def test_a_very_long_announcement_counts_as_unreadable() -> None:
    heard = directory()
    hear(heard, "orders", "a", ONE, 0)
    hear(heard, "orders", "a", "http://" + "x" * 20_000, 1)
    assert urls(heard, "orders", 1) == []


def test_the_first_of_a_hundred_thousand_costs_what_the_first_of_one_does() -> None:
    heard = EndpointDirectory({}, TTL_MS, per_group=10**6, bytes_in_all=10**9)
    for number in range(100_000):
        hear(heard, "orders", str(number), f"http://{number}/", 0)
    start = time.thread_time()
    for _ in range(1_000):
        assert next(iter(heard.endpoints("orders", "paid", 0))).url == "http://99999/"
    assert time.thread_time() - start < 1.0  # it was 106 s
