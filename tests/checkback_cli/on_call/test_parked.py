"""Which parked messages an operator's command acts on."""

import pytest

from checkback.exceptions import OperatorError
from checkback.operations.parked import ParkedMessage
from checkback.wire.protocol import UNDELIVERABLE, Action, HalfPosition
from checkback_cli.on_call.parked import chosen_of


def parked(half: str, transaction_id: str = "tx", group: str = "shop", *, undecided: bool = True) -> ParkedMessage:
    reason = "undecided for longer than the age limit" if undecided else f"{UNDELIVERABLE}paid: there is no such topic"
    return ParkedMessage(transaction_id, group, "paid", HalfPosition.parse(half), reason, None, b"v", 0)


OURS, THEIRS = parked("3:4711"), parked("0:12", group="evil")
OTHER = parked("3:4712", "tx-2")
COMMITTED = parked("1:9", undecided=False)


def chosen(*found: ParkedMessage, ids: tuple[str, ...] = (), halves: tuple[str, ...] = ()) -> list[ParkedMessage]:
    return chosen_of(found, Action.COMMIT, ids, halves)


def refused(*found: ParkedMessage, ids: tuple[str, ...] = (), halves: tuple[str, ...] = ()) -> str:
    with pytest.raises(OperatorError) as error:
        chosen(*found, ids=ids, halves=halves)
    assert str(error.value).endswith("Nothing was done.")
    return str(error.value)


def test_a_place_names_a_message_whatever_its_id() -> None:
    assert chosen(OURS, THEIRS, OTHER, halves=("3:4711",)) == [OURS]
    assert chosen(OURS, THEIRS, OTHER, halves=("0:12", "3:4712")) == [THEIRS, OTHER]


def test_an_id_names_a_message_when_no_other_has_it() -> None:
    assert chosen(OURS, OTHER, ids=("tx",)) == [OURS]
    assert chosen(OURS, OTHER, ids=("tx",), halves=("3:4711", "3:4712")) == [OURS, OTHER]


@pytest.mark.parametrize("found", [(OURS, THEIRS), (THEIRS, OURS)])
def test_an_id_of_several_is_refused_with_their_places(found: tuple[ParkedMessage, ...]) -> None:
    said = refused(*found, OTHER, ids=("tx", "tx-2"))
    assert "tx is the id of 2 messages: " in said
    assert "3:4711 (group shop, topic paid)" in said
    assert "0:12 (group evil, topic paid)" in said
    assert "--half PARTITION:OFFSET" in said


def test_one_that_is_committed_already_does_not_count_among_those_to_commit() -> None:
    assert chosen(OURS, COMMITTED, ids=("tx",)) == [OURS]
    assert chosen_of([OURS, COMMITTED], Action.REDELIVER, ["tx"], []) == [COMMITTED]
    assert "tx at 1:9: committed already" in refused(COMMITTED, ids=("tx",))


def test_what_is_not_there_or_no_place_is_refused() -> None:
    assert "Not in the list of parked messages: tx-3, 3:1." in refused(OURS, ids=("tx-3",), halves=("3:1",))
    assert "Not in the list of parked messages: 3:4711." in refused(OURS, ids=("3:4711",))
    with pytest.raises(
        OperatorError, match=r"tx is not the place of a half message: write PARTITION:OFFSET, such as 3:4711"
    ):
        chosen(halves=("tx",))


def test_none_named_means_all_that_the_action_is_for() -> None:
    assert chosen(OURS, COMMITTED, THEIRS) == [OURS, THEIRS]
