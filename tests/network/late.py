"""Rules by which a request of one transaction arrives within the next one."""

import pytest

from torture.network.proxy import Api, Request, Rule, until

STEPS = (Api.PRODUCE, Api.ADD_OFFSETS_TO_TXN, Api.TXN_OFFSET_COMMIT, Api.END_TXN)
"""Requests of a transaction before which a late one arrives."""
LATE = (Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, *STEPS)

each_step = pytest.mark.parametrize("step", STEPS, ids=lambda api: api.name)


_ALWAYS = set(zip(LATE, (*STEPS[1:], *STEPS), strict=False))
each_late_at_a_step = pytest.mark.parametrize(
    ("api", "step"),
    [
        pytest.param(api, step, id=f"{api.name}-{step.name}", marks=[] if (api, step) in _ALWAYS else pytest.mark.lab)
        for api in LATE
        for step in STEPS
    ],
)
"""Of what takes seconds, one step for each request, and all of them in the lab."""


def arriving(step: Api, late: Rule) -> Rule:
    """The late request arrives before the next request of this kind."""

    async def arrive(_request: Request) -> None:
        if not late.answered:
            await late.request.arrive()

    return Rule(step, text=late.text, before=arrive)


def arriving_after_messages(step: Api, late: Rule) -> list[Rule]:
    """Rules for one transaction: the late request arrives after its first messages were written, before ``step``.

    They do nothing when the messages come later than ``step``, which shares their connection: it is for the client to
    choose. Then the next transaction may do.
    """
    first = Rule(Api.PRODUCE, text=late.text)

    async def arrive(_request: Request) -> None:
        await until(lambda: first.answered)
        await late.request.arrive()

    return [first, Rule(step, text=late.text, before=arrive, after=first)]
