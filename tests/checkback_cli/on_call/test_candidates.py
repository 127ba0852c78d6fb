"""Which transactions an operator's command acts on."""

import pytest

from checkback.exceptions import OperatorError
from checkback.operations.in_doubt import InDoubt
from checkback.operations.parked import ParkedMessage
from checkback.wire.protocol import UNDELIVERABLE, Action, HalfPosition
from checkback_cli.on_call.candidates import Candidate, TransactionFilter, candidates, chosen

NOW = 10_000_000


def row(half: str, name: str = "tx", group: str = "shop", ingested_ms: int = NOW - 60_000) -> InDoubt:
    return InDoubt(name, group, "orders", HalfPosition.parse(half), 2, 15, ingested_ms, NOW)


def parked(
    half: str, name: str = "tx-p", group: str = "shop", *, undecided: bool = True, kept: bool = True
) -> ParkedMessage:
    reason = "too old" if undecided else f"{UNDELIVERABLE} orders: there is no such topic"
    return ParkedMessage(name, group, "orders", HalfPosition.parse(half), reason, None, b"v", NOW - 90_000, kept)


def place(half: str) -> HalfPosition:
    return HalfPosition.parse(half)


FOUND = candidates(
    [row("0:1"), row("0:2", group="evil"), row("0:3", "young", ingested_ms=NOW)],
    [parked("1:1"), parked("1:2", "lost", undecided=False)],
    NOW,
)


def names(ones: list[Candidate]) -> list[str]:
    return [str(one.half) for one in ones]


def refused(action: Action, wanted: TransactionFilter) -> str:
    with pytest.raises(OperatorError) as error:
        chosen(FOUND, action, wanted)
    assert str(error.value).endswith("Nothing was done.") or "Nothing was done. 'checkback show'" in str(error.value)
    return str(error.value)


def test_all_that_wait_are_there_the_oldest_first() -> None:
    assert names(FOUND) == ["1:1", "1:2", "0:1", "0:2", "0:3"]
    assert FOUND[2].how == "in doubt for 1 min, attempt 2 of 15"
    assert FOUND[0].how == "parked: too old"
    unreached = row("0:4")._replace(attempt=1, last_answer="unreachable", misses=4)
    (one,) = candidates([unreached], [], NOW)
    assert one.how == "in doubt for 1 min, not asked yet: nobody reachable, 4 tries"


def test_what_both_lists_have_is_parked() -> None:
    (one,) = candidates([row("0:1")], [parked("0:1", "tx")], NOW)
    assert (one.parked, one.row) == (True, False)
    assert Action.RESUME in one.actions


def test_one_that_the_job_has_not_kept_is_nobodys_to_decide() -> None:
    lost = parked("1:2", undecided=False, kept=False)
    (one,) = found = candidates([], [lost], NOW)
    assert one.actions == frozenset()
    for action in (Action.COMMIT, Action.REDELIVER):
        assert chosen(found, action, TransactionFilter(every=True)) == []
        with pytest.raises(
            OperatorError, match=r"in cb\.parked only, .*: send it to its topic by hand\. Nothing was done"
        ):
            chosen(found, action, TransactionFilter(halves=[lost.half]))
    (decidable,) = candidates([row("1:2")], [lost], NOW)
    assert decidable.row


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Action.COMMIT, ["1:1", "0:1", "0:3"]),
        (Action.ROLLBACK, ["1:1", "0:1", "0:3"]),
        (Action.RESUME, ["1:1"]),
        (Action.REDELIVER, ["1:2"]),
    ],
)
def test_all_of_a_group_are_those_that_the_action_is_for(action: Action, expected: list[str]) -> None:
    assert names(chosen(FOUND, action, TransactionFilter(every=True, group="shop"))) == expected


def test_all_may_be_narrowed_by_age_and_topic() -> None:
    old = TransactionFilter(every=True, group="shop", before_ms=NOW - 30_000)
    assert names(chosen(FOUND, Action.COMMIT, old)) == ["1:1", "0:1"]
    assert chosen(FOUND, Action.COMMIT, TransactionFilter(every=True, group="shop", topic="points")) == []


def test_an_id_names_one_unless_several_have_it() -> None:
    assert names(chosen(FOUND, Action.ROLLBACK, TransactionFilter(ids=["young", "tx-p"]))) == ["0:3", "1:1"]
    said = refused(Action.COMMIT, TransactionFilter(ids=["tx"]))
    assert "tx is the id of 2 transactions: 0:1 (group shop, topic orders), 0:2 (group evil, topic orders)." in said
    assert "--half PARTITION:OFFSET" in said


def test_a_place_names_one_whatever_its_id_and_once() -> None:
    assert names(chosen(FOUND, Action.COMMIT, TransactionFilter(halves=[place("0:2")]))) == ["0:2"]
    assert names(chosen(FOUND, Action.COMMIT, TransactionFilter(ids=["young"], halves=[place("0:3")]))) == ["0:3"]


def test_what_is_in_no_list_is_refused_and_the_way_on_is_told() -> None:
    said = refused(Action.COMMIT, TransactionFilter(ids=["nobody", "young"], halves=[place("7:7")]))
    assert said.startswith("Neither in doubt nor parked: 7:7, nobody. Nothing was done. 'checkback show'")


def test_one_that_was_never_checked_may_be_named_by_its_place() -> None:
    other = Candidate("new", "shop", "orders", place("7:7"), 0, "open", frozenset({Action.COMMIT}))
    found = chosen(FOUND, Action.COMMIT, TransactionFilter(halves=[place("7:7")]), lambda _: other)
    assert found == [other]


def test_an_action_that_is_of_no_use_is_refused_with_what_is() -> None:
    assert "tx-p at 1:1 (parked: too old): try commit or resume or rollback." in refused(
        Action.REDELIVER, TransactionFilter(ids=["tx-p"])
    )
    assert "lost at 1:2 (parked: committed, but not deliverable to orders: there is no such topic): try redeliver." in (
        refused(Action.ROLLBACK, TransactionFilter(ids=["lost"]))
    )
    assert "in doubt for 1 min, attempt 2 of 15): try commit or rollback." in refused(
        Action.RESUME, TransactionFilter(halves=[place("0:1")])
    )


def test_of_one_id_those_count_that_the_action_is_for() -> None:
    found = candidates([], [parked("3:4711", "tx"), parked("1:9", "tx", undecided=False)], NOW)
    assert names(chosen(found, Action.COMMIT, TransactionFilter(ids=["tx"]))) == ["3:4711"]
    assert names(chosen(found, Action.REDELIVER, TransactionFilter(ids=["tx"]))) == ["1:9"]


def test_one_that_is_decided_leaves_nothing_to_do() -> None:
    over = Candidate("old", "shop", "orders", place("7:7"), 0, "delivered: orders:0:1", frozenset())
    with pytest.raises(OperatorError, match=r"\(delivered: orders:0:1\): there is nothing to do about it\."):
        chosen(FOUND, Action.COMMIT, TransactionFilter(halves=[place("7:7")]), lambda _: over)


def test_an_id_may_be_given_by_a_beginning_that_is_no_others() -> None:
    found = candidates([row("0:1", "c441-4566"), row("0:2", "c441-9900"), row("0:3", "c441")], [], NOW)
    assert names(chosen(found, Action.COMMIT, TransactionFilter(ids=["c441-4"]))) == ["0:1"]
    assert names(chosen(found, Action.COMMIT, TransactionFilter(ids=["c441"]))) == ["0:3"], "an id is itself first"
    with pytest.raises(OperatorError, match=r"c441- begins the ids of 2 transactions: c441-4566 at 0:1 \(.*c441-9900"):
        chosen(found, Action.COMMIT, TransactionFilter(ids=["c441-"]))
    with pytest.raises(OperatorError, match="Neither in doubt nor parked: c44"):
        chosen(found, Action.COMMIT, TransactionFilter(ids=["c44"]))
    waits = [parked("1:1", "ab12-1"), parked("1:2", "ab12-2", undecided=False)]
    with pytest.raises(OperatorError, match="begins the ids of 2 transactions"):
        chosen(candidates([], waits, NOW), Action.REDELIVER, TransactionFilter(ids=["ab12"]))
