"""Which checks wait, and what is committed of them: each check is asked, and none twice without need."""

from hypothesis import given
from hypothesis import strategies as st

from checkers.behind import Reading, Route

ORDERS, INVOICES = Route("orders", "paid"), Route("invoices", "sent")


def read(reading: Reading, first: int, routes: list[Route]) -> list[int]:
    """Let records come; gives the offsets of those that are to be asked."""
    return [first + at for at, route in enumerate(routes) if reading.begin(first + at, route)]


def test_one_that_waits_holds_back_what_comes_after_it_of_its_route_alone() -> None:
    reading = Reading(5)
    assert read(reading, 5, [ORDERS, INVOICES]) == [5, 6]
    assert reading.postpone(ORDERS, 5)
    assert read(reading, 7, [ORDERS, INVOICES]) == [8]
    assert reading.committed() == (6, '[["orders","paid",5]]')
    assert list(reading.waiting()) == [ORDERS]


def test_what_was_answered_while_an_earlier_one_was_under_way_is_not_asked_again() -> None:
    reading = Reading(0)
    read(reading, 0, [ORDERS] * 4)
    reading.finish(ORDERS, 2)
    reading.postpone(ORDERS, 0)
    reading.finish(ORDERS, 1)
    backlog = reading.backlogs[ORDERS]
    assert [offset for offset in range(3) if backlog.take(offset)] == [0]
    assert reading.window.under_way(3)


def test_what_has_caught_up_is_forgotten() -> None:
    reading = Reading(0)
    read(reading, 0, [ORDERS])
    reading.postpone(ORDERS, 0)
    assert reading.backlogs[ORDERS].take(0)
    assert read(reading, 1, [ORDERS]) == [1]
    reading.finish(ORDERS, 1)
    assert reading.committed() == (2, '[["orders","paid",0]]')
    reading.finish(ORDERS, 0)
    assert reading.committed() == (2, "")


def test_more_routes_than_a_note_holds_are_read_again_from_the_first_that_is_left_out() -> None:
    reading = Reading(0)
    routes = [Route(f"group-{number}", "x" * 200) for number in range(30)]
    read(reading, 0, routes)
    for offset, route in enumerate(routes):
        reading.postpone(route, offset)
    offset, note = reading.committed()
    assert len(note) <= 3_000
    again = Reading(offset, note)
    assert [*again.backlogs] == routes[:offset]
    assert 10 <= offset < 30


def again(reading: Reading, route: Route, halves: str) -> list[int]:
    """Read all of a route again; gives the offsets of those that are to be asked.

    ``halves``: one letter an offset, a space where a record of another route is.
    """
    offsets = (at for at in range(reading.first(route), len(halves)) if halves[at] != " ")
    taken = [at for at in offsets if reading.take(at, route, halves[at], at)]
    reading.read_to(len(halves), route)
    return taken


def test_one_that_was_answered_unreachable_holds_back_nobody_and_is_asked_again() -> None:
    reading = Reading(0)
    assert reading.begin(0, ORDERS, "a")
    reading.keep(ORDERS, 0, "a", 0)
    assert [*reading.waiting()] == [ORDERS]
    assert reading.begin(1, ORDERS, "b"), "people see of this one, too, that nobody can be asked"
    reading.finish(ORDERS, 1)
    assert reading.committed() == (2, '[["orders","paid",0,"kept"]]')
    assert again(reading, ORDERS, "ab") == [0]
    assert reading.answered(0, ORDERS)
    assert [*reading.waiting()] == []
    assert again(reading, ORDERS, "ab") == [], "it is under way"
    assert reading.committed()[1], "another service would ask it"
    reading.finish(ORDERS, 0)
    assert reading.committed() == (2, "")


def test_of_each_transaction_the_newest_check_is_asked() -> None:
    reading = Reading(0)
    for at, half in enumerate("aba"):
        reading.begin(at, ORDERS, half)
        reading.keep(ORDERS, at, half, at)
    assert reading.first(ORDERS) == 1
    assert again(reading, ORDERS, "aba") == [1, 2]


def test_one_that_the_job_has_written_again_is_not_asked_beside_it() -> None:
    reading = Reading(0)
    reading.begin(0, ORDERS, "a")
    reading.keep(ORDERS, 0, "a", 0)
    assert reading.begin(1, ORDERS, "a")
    assert [*reading.waiting()] == []
    reading.postpone(ORDERS, 1)
    assert again(reading, ORDERS, "aa") == [1]


def test_a_trial_in_vain_leaves_it_where_it_was() -> None:
    reading = Reading(0)
    reading.begin(0, ORDERS, "a")
    reading.keep(ORDERS, 0, "a", 7)
    assert again(reading, ORDERS, "a") == [0]
    reading.keep(ORDERS, 0, "a", 7)
    assert again(reading, ORDERS, "a") == [0]
    assert not reading.postpone(ORDERS, 0), "it waits as before, and holds back nobody"
    assert reading.begin(1, ORDERS, "b")


def test_what_was_kept_is_asked_once_by_another_service() -> None:
    reading = Reading(0)
    for at, half in enumerate("aab c"):
        route = INVOICES if half == " " else ORDERS
        reading.begin(at, route, half)
        (reading.finish(route, at) if half == " " else reading.keep(route, at, half, at))
    other = Reading(*reading.committed())
    assert other.begin(5, ORDERS, "c"), "the job has written another"
    other.finish(ORDERS, 5)
    assert again(other, ORDERS, "aab cc") == [1, 2]
    assert other.committed()[1]
    for offset in range(3):
        other.finish(ORDERS, offset)
    assert other.committed() == (6, "")


def test_what_the_job_must_have_written_again_is_forgotten() -> None:
    reading = Reading(0)
    reading.begin(0, ORDERS, "a")
    reading.came(10)
    reading.keep(ORDERS, 0, "a", 10)
    noted = Reading(*reading.committed())
    noted.came(10)
    for one in (reading, noted):
        one.came(110)
        one.forget_kept(100)
        assert one.committed()[1]
        one.came(111)
        one.forget_kept(100)
        assert one.committed()[1] == ""


def test_a_service_that_knows_nothing_of_kept_ones_reads_the_others() -> None:
    reading = Reading(0)
    read(reading, 0, [ORDERS, INVOICES, INVOICES])
    reading.keep(INVOICES, 1, "b", 1)
    reading.postpone(ORDERS, 0)
    note = reading.committed()[1]
    assert note == '[["orders","paid",0],["invoices","sent",1,"kept"]]'


def test_no_more_than_so_many_are_kept_of_a_partition() -> None:
    reading = Reading(0)
    for at in range(10_003):
        reading.begin(at, ORDERS, str(at))
        if at != 10_002:
            reading.keep(ORDERS, at, str(at), at)
    assert len(reading.kept[ORDERS]) == 10_000
    assert reading.backlogs[ORDERS].next == 10_000, "the next ones wait, behind one offset"


def test_of_more_that_were_kept_than_a_note_holds_those_of_few_transactions_are_left_out() -> None:
    reading = Reading(0)
    routes = [Route(f"group-{number:02}", "x" * 200) for number in range(30)]
    written = [(route, half) for half in range(2) for route in routes[half * 20 :]]
    for at, (route, half) in enumerate(written):
        reading.begin(at, route, str(half))
        reading.keep(route, at, str(half), at)
    noted = [*Reading(*reading.committed()).kept]
    assert noted[:10] == routes[20:]
    assert noted[10:] == routes[: len(noted) - 10]
    assert 10 < len(noted) < 30


class Model:
    """Each check must have been answered, or be under way, or be found again from what is committed."""

    def __init__(self, routes: list[Route]) -> None:
        self.routes = routes
        self.reading = Reading(0)
        self.position = 0
        self.under_way: set[int] = set()
        self.answered: set[int] = set()
        self.dealt_with: set[int] = set()
        """Since the service began."""

    def read(self) -> None:
        if self.position < len(self.routes):
            if self.reading.begin(self.position, self.routes[self.position], str(self.position)):
                assert self.position not in self.under_way | self.dealt_with, "asked twice"
                self.under_way.add(self.position)
            self.position += 1

    def answer(self, offset: int) -> None:
        self.under_way.remove(offset)
        self.answered.add(offset)
        self.dealt_with.add(offset)
        self.reading.finish(self.routes[offset], offset)

    def postpone(self, offset: int) -> None:
        self.under_way.remove(offset)
        self.reading.postpone(self.routes[offset], offset)

    def keep(self, offset: int) -> None:
        self.under_way.remove(offset)
        self.reading.keep(self.routes[offset], offset, str(offset), offset)

    def read_again(self) -> None:
        for route in list(self.reading.waiting()):
            for offset in range(self.reading.first(route), self.reading.window.next):
                if self.routes[offset] == route and self.reading.take(offset, route, str(offset), offset):
                    assert offset not in self.under_way, "asked twice at the same time"
                    self.under_way.add(offset)
            self.reading.read_to(self.reading.window.next, route)

    def share_out(self) -> None:
        """Partitions are shared out anew, and this one stays: its consumer goes back to what was committed."""
        self.position = self.reading.committed()[0]

    def crash(self) -> None:
        self.position, note = self.reading.committed()
        self.reading, self.under_way, self.dealt_with = Reading(self.position, note), set(), set()

    def finish(self) -> None:
        while self.position < len(self.routes):
            self.read()
        for _ in range(2):
            self.read_again()
            for offset in sorted(self.under_way):
                self.answer(offset)


@given(st.data())
def test_every_check_is_asked_whatever_waits_fails_and_is_begun_again(data: st.DataObject) -> None:
    model = Model(data.draw(st.lists(st.sampled_from([ORDERS, INVOICES]), min_size=1, max_size=25)))
    steps = st.sampled_from(["read", "answer", "postpone", "keep", "read_again", "share_out", "crash"])
    for name in data.draw(st.lists(steps, max_size=60)):
        if name in {"answer", "postpone", "keep"}:
            if model.under_way:
                getattr(model, name)(data.draw(st.sampled_from(sorted(model.under_way))))
        else:
            getattr(model, name)()
        seen = set(range(model.position))
        another = Model(model.routes)
        another.position, note = model.reading.committed()
        another.reading = Reading(another.position, note)
        another.finish()
        assert seen <= model.answered | another.answered
    model.finish()
    assert model.answered == set(range(len(model.routes)))
    assert model.reading.committed() == (len(model.routes), "")
