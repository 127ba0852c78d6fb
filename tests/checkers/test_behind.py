"""Which checks wait, and what is committed of them: each check is asked, and none twice without need."""

from hypothesis import given
from hypothesis import strategies as st

from checkers import Reading, Route

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


class Model:
    """Each check must have been answered, or be under way, or be found again from what is committed."""

    def __init__(self, routes: list[Route]) -> None:
        self.routes = routes
        self.reading = Reading(0)
        self.position = 0
        self.under_way: set[int] = set()
        self.answered: set[int] = set()

    def read(self) -> None:
        if self.position < len(self.routes):
            if self.reading.begin(self.position, self.routes[self.position]):
                self.under_way.add(self.position)
            self.position += 1

    def answer(self, offset: int) -> None:
        self.under_way.remove(offset)
        self.answered.add(offset)
        self.reading.finish(self.routes[offset], offset)

    def postpone(self, offset: int) -> None:
        self.under_way.remove(offset)
        self.reading.postpone(self.routes[offset], offset)

    def read_again(self) -> None:
        for route in list(self.reading.waiting()):
            backlog = self.reading.backlogs[route]
            for offset in range(backlog.next, self.reading.window.next):
                waits = self.routes[offset] == route and not self.reading.window.under_way(offset)
                if waits and backlog.take(offset):
                    assert offset not in self.under_way, "asked twice at the same time"
                    self.under_way.add(offset)
            backlog.read_to(self.reading.window.next)
            self.reading.forget(route)

    def crash(self) -> None:
        self.position, note = self.reading.committed()
        self.reading, self.under_way = Reading(self.position, note), set()

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
    for name in data.draw(
        st.lists(st.sampled_from(["read", "answer", "postpone", "read_again", "crash"]), max_size=60)
    ):
        if name in {"answer", "postpone"}:
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
