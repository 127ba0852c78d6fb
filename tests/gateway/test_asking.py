"""Who is asked: the sender first, then others of its group; nobody waits for one that has gone."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from checkback.listener import LocalTransactionState
from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import HalfPosition
from gateway.asking import CLIENT_HEADER, Asking, ClientAnswer, Heard
from gateway.tickets import Ticket
from tests.gateway.scene import check_of

COMMIT = ClientAnswer(LocalTransactionState.COMMIT, "")
ROLLBACK = ClientAnswer(LocalTransactionState.ROLLBACK, "")


class Client:
    """Does with a question what it is told to."""

    def __init__(self, client_id: str, act: Callable[[CheckRequest], object] = lambda _: None) -> None:
        self._client_id = client_id
        self._act = act
        self.handed: list[HalfPosition] = []

    @property
    def client_id(self) -> str:
        return self._client_id

    @property
    def listening(self) -> bool:
        return True

    def take_back(self, check: CheckRequest) -> bool:
        return False

    def hand(self, check: CheckRequest) -> None:
        self.handed.append(check.half)
        self._act(check)


def answering(asking: Asking, name: str = "a", said: ClientAnswer = COMMIT) -> Client:
    return Client(name, lambda check: asking.answer(Ticket.of(check), said))


def sent_by(name: str, attempt: int = 1) -> CheckRequest:
    return check_of(headers=[(CLIENT_HEADER, name.encode())], attempt=attempt)


async def test_who_is_there_is_asked() -> None:
    asking = Asking(5)
    asking.join(answering(asking), "orders")
    assert await asking.ask(check_of()) == COMMIT
    assert await asking.ask(check_of(group="others")) is None


async def test_the_sender_is_asked_first_and_another_when_it_was_asked_before() -> None:
    asking = Asking(5)
    clients = [answering(asking, name) for name in "abc"]
    for client in clients:
        asking.join(client, "orders")
    for _ in range(3):
        await asking.ask(sent_by("b"))
    assert [len(client.handed) for client in clients] == [0, 3, 0]
    await asking.ask(sent_by("b", attempt=2))
    assert [len(client.handed) for client in clients] == [1, 3, 0]


async def test_of_others_each_in_turn() -> None:
    asking = Asking(5)
    clients = [answering(asking, name) for name in "abc"]
    for client in clients:
        asking.join(client, "orders")
    for _ in range(6):
        await asking.ask(sent_by("gone"))
    assert [len(client.handed) for client in clients] == [2, 2, 2]


async def test_one_that_goes_while_it_is_asked_is_passed_over_at_once() -> None:
    asking = Asking(60)
    going = Client("a", lambda _: asking.leave(going, ["orders"]))
    staying = answering(asking, "b")
    asking.join(going, "orders")
    asking.join(staying, "orders")
    async with asyncio.timeout(5):
        assert await asking.ask(sent_by("a")) == COMMIT
        asking.leave(staying, ["orders"])
        assert await asking.ask(sent_by("a")) is None


async def test_one_that_says_nothing_has_said_unknown() -> None:
    asking = Asking(0.01)
    asking.join(Client("silent"), "orders")
    said = await asking.ask(check_of())
    assert said == ClientAnswer(LocalTransactionState.UNKNOWN, "client silent said nothing within 0.01 s")
    assert asking.answer(Ticket.of(check_of()), COMMIT) is Heard.BY_NOBODY


async def test_groups_come_and_go_with_their_last_client() -> None:
    asking = Asking()
    first, second = Client("a"), Client("b")
    for client in (first, second):
        asking.join(client, "orders")
    assert (asking.groups(), asking.clients(), asking.changed.is_set()) == (["orders"], 2, True)
    asking.changed.clear()
    asking.leave(first, ["orders"])
    assert (asking.groups(), asking.changed.is_set()) == (["orders"], False)
    asking.leave(second, ["orders"])
    assert (asking.groups(), asking.changed.is_set()) == ([], True)


async def test_two_checks_of_one_half_are_both_answered() -> None:
    """A check service that asks again while it waits, or two of them."""
    asking = Asking(60)
    client = Client("a")
    asking.join(client, "orders")
    both = [asyncio.ensure_future(asking.ask(check_of())) for _ in range(2)]
    while not client.handed:  # noqa: ASYNC110  (the loop's next turn, not a time)
        await asyncio.sleep(0)
    assert asking.answer(Ticket.of(check_of()), COMMIT) is Heard.AS_END
    assert await asyncio.gather(*both) == [COMMIT, COMMIT]
    assert client.handed == [HalfPosition(0, 0)]


async def test_one_that_leaves_another_group_still_answers_what_it_was_asked() -> None:
    asking = Asking(5)

    def act(check: CheckRequest) -> None:
        asking.leave(client, [])
        asking.leave(client, ["others"])
        asking.answer(Ticket.of(check), COMMIT)

    client = Client("a", act)
    for group in ("orders", "others"):
        asking.join(client, group)
    assert await asking.ask(check_of()) == COMMIT


async def test_one_that_cannot_be_told_spoils_nobody_elses() -> None:
    """A header that a client's protocol cannot have, for example."""

    def act(check: CheckRequest) -> None:
        if check.half.offset:
            raise ValueError("no such time")
        asking.answer(Ticket.of(check), COMMIT)

    asking = Asking(5)
    asking.join(Client("a", act), "orders")
    good, bad = await asyncio.gather(asking.ask(check_of()), asking.ask(check_of(HalfPosition(0, 1))))
    assert (good, bad and bad.state) == (COMMIT, LocalTransactionState.UNKNOWN)


async def test_an_answer_counts_for_just_the_transaction_that_is_asked_about() -> None:
    """A place may be said by anybody: of another topic's, or in a check that nobody has sent."""
    asking = Asking(60)
    clients = {group: Client(group) for group in ("orders", "others")}
    for group, client in clients.items():
        asking.join(client, group)
    honest, forged = check_of(), replace(check_of(), group="others", transaction_id="forged")
    both = [asyncio.ensure_future(asking.ask(one)) for one in (honest, forged)]
    while not all(client.handed for client in clients.values()):  # noqa: ASYNC110  (the loop's next turn)
        await asyncio.sleep(0)
    own = Ticket.of(honest)
    for wrong in (own._replace(group="others"), own._replace(transaction_id="forged")):
        assert asking.answer(wrong, COMMIT) is Heard.BY_NOBODY
    assert asking.answer(Ticket.of(forged), COMMIT) is Heard.AS_END
    assert asking.answer(own, ROLLBACK) is Heard.AS_END
    assert await asyncio.gather(*both) == [ROLLBACK, COMMIT]
