"""Claims: what is kept of ops that say that a lane has delivered a half message which has not been seen yet.

None may be dropped while its half message may still come: its lane has forgotten it, and the half message would be
delivered again. So the limits for ops that wait are not theirs, and they have one of their own, which ops of lanes
never reach: of one place no more than ``claims_max`` different ones are kept (by a digest of id and group; a lane's
own ops are all alike), 24 bytes each. One more makes the place *contested*. A half message that no claim fits is then
not known to be undelivered, nor to be delivered: it is parked for an operator. Which segments there are claims for is
bounded by the half topic's log, behind whose end no claim is taken.
"""

from hashlib import blake2b

import numpy as np

from state.rows import CONTESTED_LANE, EARLY_FIELDS, NO_LANE, Column, Rows, objects, rank
from state.table import Event, EventCodes

CONTESTED_PLACE = 0
"""In place of a digest: the place is contested. No claim has this digest."""


def digests(rows: Rows) -> Column:
    """int64[n], none of them 0: of ids and groups. 64 bits, since who guesses them could as well write the op."""
    return np.fromiter(map(_digest, rows["transaction_id"], rows["group"]), np.int64, rows.count)


def _digest(transaction_id: str, group: str) -> int:
    made = blake2b(f"{len(group)} {group}{transaction_id}".encode(), digest_size=8).digest()
    return int.from_bytes(made, "little", signed=True) or 1


def with_more(claims: Rows, ops: Rows, most: int) -> tuple[Rows, int, Column]:
    """The claims that are kept when further ones have come.

    Args:
        claims: those that are kept (``CLAIM_FIELDS``).
        ops: ops that say ``DELIVERED``, of half messages that have not been seen, in the order of their topic.
        most: so many different ones are kept of a place (``Policy.claims_max``).

    Returns:
        The claims; how many ops say what is known; bool[n], which of the ops are too many for their place.
    """
    if not ops.count:
        return claims, 0, np.zeros(0, dtype=bool)
    came = Rows({"half_offset": ops["half_offset"], "op_offset": ops["op_offset"], "digest": digests(ops)})
    marks = claims["digest"] == CONTESTED_PLACE
    every = Rows.concat([claims.take(~marks), came])
    first = _first_of_its_like(every)
    different = np.flatnonzero(first == np.arange(every.count))
    kept = np.zeros(every.count, dtype=bool)
    kept[different] = rank(every["half_offset"][different]) < most
    too_many = ~kept[first[-ops.count :]]
    contested = np.union1d(claims["half_offset"][marks], ops["half_offset"][too_many])
    blank = np.full(len(contested), CONTESTED_PLACE, dtype=np.int64)
    marked = Rows({"half_offset": contested, "op_offset": blank - 1, "digest": blank})
    repeated = int((~too_many & ~kept[-ops.count :]).sum())
    return Rows.concat([every.take(kept), marked]), repeated, too_many


def _first_of_its_like(claims: Rows) -> Column:
    """int64[n]: the first row that has the same place and digest."""
    places, codes = claims["half_offset"], claims["digest"]
    order = np.lexsort((codes, places))  # stable
    new = np.r_[True, (np.diff(places[order]) != 0) | (np.diff(codes[order]) != 0)]
    first = np.empty(claims.count, dtype=np.int64)
    first[order] = order[new][np.cumsum(new) - 1]
    return first


def contest(halves: Rows, claims: Rows, events: EventCodes) -> EventCodes:
    """The events of half messages just read, with ``HALF_CONTESTED`` for those of which nobody knows what was done.

    Changes their ``lane`` in place. ``halves`` are in the order of their offsets, each with one of its own.
    """
    if not claims.count:
        return events
    marked = claims["half_offset"][claims["digest"] == CONTESTED_PLACE]
    fitting = claims["half_offset"][_row_fitted(claims, halves) >= 0]
    contested = (events == Event.HALF) & (halves["lane"] != NO_LANE) & np.isin(halves["offset"], marked)
    contested &= ~np.isin(halves["offset"], fitting)
    halves["lane"][contested] = CONTESTED_LANE
    return np.where(contested, np.uint8(Event.HALF_CONTESTED), events)


def redeemed(claims: Rows, messages: Rows) -> tuple[Rows, Rows]:
    """What becomes of claims whose half messages have been seen, some of which are among ``messages``.

    Returns:
        Ops (``EARLY_FIELDS``) of those that fit their half message, and the claims that do not.
    """
    said = claims.take(claims["digest"] != CONTESTED_PLACE)
    ordered = messages.take(np.argsort(messages["offset"]))
    row = _row_fitted(said, ordered)
    fits = row >= 0
    names = {name: ordered[name][row[fits]] for name in ("transaction_id", "group")}
    return as_ops(said.take(fits)).with_columns(**names), said.take(~fits)


def as_ops(claims: Rows) -> Rows:
    """Ops (``EARLY_FIELDS``) as far as is known: no id, group or source, nor what else they had."""
    claims = claims.take(claims["digest"] != CONTESTED_PLACE)
    count = claims.count
    known = {
        **{name: claims[name] for name in ("half_offset", "op_offset")},
        "event": np.full(count, Event.DELIVERED, dtype=np.uint8),
        **{name: objects([""] * count) for name in ("transaction_id", "group", "source")},
        "action": objects(["commit"] * count),
        **{name: objects([None] * count) for name in ("key", "value", "headers")},
        "settled": np.zeros(count, dtype=np.int8),
        "came_ms": np.full(count, -1, dtype=np.int64),
    }
    return Rows({name: known[name] for name in EARLY_FIELDS})


def _row_fitted(claims: Rows, halves: Rows) -> Column:
    """int64[n]: the half message, of those in the order of their offsets, that each claim is of; -1: none.

    That names a lane, and has the claim's place, id and group.
    """
    found = np.full(claims.count, -1, dtype=np.int64)
    at = np.searchsorted(halves["offset"], claims["half_offset"])
    there = np.flatnonzero(at < halves.count)
    there = there[halves["offset"][at[there]] == claims["half_offset"][there]]
    there = there[halves["lane"][at[there]] != NO_LANE]
    wanted, of_claim = np.unique(at[there], return_inverse=True)
    same = digests(halves.take(wanted))[of_claim] == claims["digest"][there]
    found[there[same]] = at[there[same]]
    return found
