"""Transaction ids of gateways: any with the secret reads them, and nobody else makes one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.wire.protocol import HalfPosition
from gateway.refusals import GatewayError, RefusalReason
from gateway.tickets import Ticket, TicketSeal

OLD, NEW = "o" * 32, "n" * 32
TICKET = Ticket(HalfPosition(3, 17), "a-transaction", "orders")


@given(st.integers(0, 2**31), st.integers(0, 2**62), st.text(min_size=1, max_size=64), st.text(min_size=1, max_size=80))
def test_what_is_sealed_is_what_is_opened(partition: int, offset: int, transaction_id: str, group: str) -> None:
    ticket = Ticket(HalfPosition(partition, offset), transaction_id, group)
    assert TicketSeal([NEW]).open(TicketSeal([NEW]).seal(ticket)) == ticket


def test_it_is_the_same_each_time_and_needs_no_quoting() -> None:
    sealed = TicketSeal([NEW]).seal(TICKET)
    assert sealed == TicketSeal([NEW, OLD]).seal(TICKET)
    assert set(sealed) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


def test_while_secrets_are_changed_both_are_taken() -> None:
    assert TicketSeal([NEW, OLD]).open(TicketSeal([OLD]).seal(TICKET)) == TICKET


@pytest.mark.parametrize(
    "forged",
    [
        "",
        ".",
        "a.b",
        TicketSeal([OLD]).seal(TICKET),
        TicketSeal([NEW]).seal(TICKET)[:-1],
        TicketSeal([NEW]).seal(TICKET)[1:],
        "A" + TicketSeal([NEW]).seal(TICKET),
        TicketSeal([NEW]).seal(TICKET).replace(".", ".."),
        TicketSeal([NEW]).seal(TICKET) + "x" * 4_000,
        "\ud800",
        "ä.ö",
    ],
)
def test_what_was_not_given_out_is_refused(forged: str) -> None:
    with pytest.raises(GatewayError) as refused:
        TicketSeal([NEW]).open(forged)
    assert refused.value.refusal is RefusalReason.TRANSACTION


@given(st.integers(0, 200), st.characters(codec="ascii"))
def test_no_character_of_it_can_be_another(at: int, other: str) -> None:
    sealed = TicketSeal([NEW]).seal(TICKET)
    changed = sealed[:at] + other + sealed[at + 1 :]
    if at < len(sealed) and changed != sealed:
        with pytest.raises(GatewayError):
            TicketSeal([NEW]).open(changed)
