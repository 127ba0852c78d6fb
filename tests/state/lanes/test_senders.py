"""A sender may crash, and requests may arrive late, at any moment: records and offsets stay together.

The settings are searched to their end, in every order of all steps.
"""

import pytest

from tests.state.lanes.explore import Explored, search
from tests.state.lanes.kafka import Request
from tests.state.lanes.senders import Renewal, SenderSetting, of_sender, violations

SENT = (True, True)
MIXED = (True, False, True)


def explore(setting: SenderSetting, sought: str = "") -> Explored:
    return search(setting.begin(), of_sender(setting), violations(setting), sought)


@pytest.mark.parametrize("sends", [SENT, MIXED])
@pytest.mark.parametrize("resets", [0, 1, 5])
def test_a_sender_that_renews_itself_keeps_records_and_offsets_together(sends: tuple[bool, ...], resets: int) -> None:
    explored = explore(SenderSetting(sends, resets=resets))
    assert not explored.wrong, "\n".join([explored.wrong, *explored.history])
    assert explored.worlds > 50, "the model hardly moves"


@pytest.mark.parametrize(
    ("late", "violation"),
    [
        (Request.COMMIT, "2 is sent, and its offset is not committed"),
        (Request.COMMIT, "2 is repeated"),
        (Request.ABORT, "0 is lost"),
        (Request.COMMIT_OFFSETS, "the offset has gone back from 2 to 1"),
        (Request.COMMIT_OFFSETS, "2 is repeated"),
    ],
)
def test_without_a_renewal_one_late_request_parts_them(late: Request, violation: str) -> None:
    explored = explore(SenderSetting(MIXED, frozenset({late}), renewal=Renewal.NEVER), violation)
    assert explored.wrong == violation


def test_a_renewal_before_the_next_transaction_is_too_late_for_three_late_requests() -> None:
    """Together the three are a whole transaction; it commits an old offset over one committed in no transaction."""
    setting = SenderSetting(MIXED, resets=2, renewal=Renewal.BEFORE_THE_NEXT_TRANSACTION)
    assert not explore(setting).wrong
    explored = explore(SenderSetting(MIXED, resets=3, renewal=Renewal.BEFORE_THE_NEXT_TRANSACTION))
    assert explored.wrong == "the offset has gone back from 2 to 1"
