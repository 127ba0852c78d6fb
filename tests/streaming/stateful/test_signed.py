"""Signed records on a real Spark: read by place or one by one, they are taken and refused alike."""

from random import Random
from types import SimpleNamespace as Row

import pytest
from pyspark.sql import SparkSession

from access.policy import policy_of
from access.verifying import Verifier
from checkback.kafka.signing import signed
from checkback.kafka.transport import OutgoingRecord
from checkback.wire.lanes import LaneFact, of_lane, stating
from checkback.wire.own_headers import own_headers, wrong_with_own
from checkback.wire.protocol import (
    GROUP,
    ID,
    SIGNATURE,
    TOPIC,
    Action,
    HalfPosition,
    Source,
    TransactionOptions,
    half_headers,
    op_headers,
)
from checkback.wire.signed_records import SigningKey
from checkers.signature_index import _rows as signature_rows
from state.content import SHUFFLED_BYTES
from streaming.batch.headers import unpack_headers
from streaming.stateful.decode import HALF_KIND, LARGE_HALF_KIND, OP_KIND
from tests.streaming.stateful.decoding import BROKEN, HALF, OP, TOPICS, WHEN, decoded_rows, decoding

LANE = "0123456789abcdef" * 2
SHOP, OPERATOR, JOB = (SigningKey(name, name * 8) for name in ("shop-1", "ops-1", "job-1"))
VERIFIER = Verifier(
    policy_of(
        '[accounts.shop]\ngroups = ["shop"]\nkeys = ["shop-1"]\ntopics = ["orders"]\n'
        '[accounts.people]\nkeys = ["ops-1"]\nroles = ["operator"]\n'
        '[accounts.programs]\nkeys = ["job-1"]\nroles = ["job"]\n'
    ),
    {"shop-1": SHOP, "ops-1": OPERATOR, "job-1": JOB},
)
REPEATED = "a cb- header is there more than once"
NOW_MS = int(WHEN.timestamp() * 1000)
PLAIN = half_headers("tx-1", "shop", "orders")
HALVES = {
    "plain": PLAIN,
    "with an application's header": half_headers("tx-1", "shop", "orders", [("trace", b"1"), ("e", b"")]),
    "of a lane": of_lane(PLAIN, LANE),
    "of a lane, with a header": of_lane(half_headers("tx-1", "shop", "orders", [("trace", b"1")]), LANE),
    "with options": half_headers("tx-1", "shop", "orders", partition=2, options=TransactionOptions(check_max=3)),
    "in another order": [("trace", b"1"), *reversed(PLAIN)],
}
PLACE = HalfPosition(1, 70)
COMMIT = op_headers("tx-1", "shop", PLACE, Action.COMMIT, Source.PRODUCER)
OPS = {
    "plain": COMMIT,
    "delivered": stating(COMMIT, LaneFact.DELIVERED),
    "settled": stating(COMMIT, LaneFact.SETTLED),
    "in another order": [*reversed(COMMIT)],
}


def by(key: SigningKey, topic: str, headers: list[tuple[str, bytes]], value: bytes = b"v") -> OutgoingRecord:
    return signed(OutgoingRecord(topic, 1, b"k", value, headers), key, NOW_MS)


def taken(spark: SparkSession, *records: OutgoingRecord) -> list[Row]:
    given = enumerate(records, start=100)
    rows = [(one.topic, one.partition, at, one.key, one.value, list(one.headers), WHEN) for at, one in given]
    return decoded_rows(spark, rows, VERIFIER)


def test_what_is_signed_is_taken_as_if_it_were_not(spark: SparkSession) -> None:
    unsigned = [OutgoingRecord(TOPICS.half, 1, b"k", b"v", headers) for headers in HALVES.values()]
    unsigned += [OutgoingRecord(TOPICS.op, 1, b"k", b"v", headers) for headers in OPS.values()]
    rows = [(one.topic, 1, 100 + at, b"k", b"v", list(one.headers), WHEN) for at, one in enumerate(unsigned)]
    expected = decoded_rows(spark, rows)
    found = taken(spark, *(signed(one, SHOP, NOW_MS) for one in unsigned))
    assert [one.kind for one in found] == [HALF] * len(HALVES) + [OP] * len(OPS)
    for name, one, other in zip([*HALVES, *OPS], found, expected, strict=True):
        one.headers, other.headers = (
            [pair for pair in unpack_headers(row.headers) if pair[0] != SIGNATURE] if row.kind == HALF else None
            for row in (one, other)
        )
        assert vars(one) == vars(other), name


def test_those_in_our_order_are_read_by_place(spark: SparkSession) -> None:
    records = [by(SHOP, TOPICS.half, HALVES["of a lane"]), by(SHOP, TOPICS.op, OPS["plain"])]
    rows = [(one.topic, 1, at, b"k", b"v", list(one.headers), WHEN) for at, one in enumerate(records)]
    found = decoding(spark, rows).collect()
    assert [row.kind for row in found] == [HALF_KIND, OP_KIND]
    assert [row.headers for row in found] == [None, None]
    assert [bytes(row.signature) for row in found] == [dict(one.headers)[SIGNATURE] for one in records]


def test_what_is_not_signed_by_who_may_is_refused_whole(spark: SparkSession) -> None:
    forged = [OutgoingRecord(TOPICS.half, 1, b"k", b"v", headers) for headers in HALVES.values()]
    forged += [by(OPERATOR, TOPICS.half, headers) for headers in HALVES.values()]
    forged += [by(SHOP, TOPICS.half, headers)._replace(value=b"w") for headers in HALVES.values()]
    forged += [OutgoingRecord(TOPICS.op, 1, b"k", b"v", headers) for headers in OPS.values()]
    forged += [by(OPERATOR, TOPICS.op, headers) for headers in OPS.values()]
    forged += [by(SHOP, TOPICS.op, op_headers("tx-1", "shop", PLACE, Action.COMMIT, Source.OPERATOR))]
    forged += [by(SHOP, TOPICS.op, op_headers("tx-1", "shop", PLACE, Action.COMMIT, Source.CHECK))]
    found = taken(spark, *forged)
    assert [row.kind for row in found] == [BROKEN] * len(forged)
    number = len(HALVES)
    assert all("cb-signature is missing" in row.reason for row in found[:number])
    assert all("needs a key of its account" in row.reason for row in found[number : 2 * number])
    assert all("or a changed record" in row.reason for row in found[2 * number : 3 * number])
    for row, one in zip(found, forged, strict=True):
        assert unpack_headers(row.headers) == list(one.headers), "nothing of it is lost"


RETRIES = {
    "plain": half_headers("tx-1", "points", "cb.retry.points"),
    "to its dead letters": half_headers("tx-1", "points", "cb.dlq.points"),
    "of a lane": of_lane(half_headers("tx-1", "points", "cb.retry.points"), LANE),
    "sent back": [*half_headers("tx-1", "points", "cb.retry.points"), ("cb-action", b"commit")],
}
RETRIES["held"] = [*RETRIES["sent back"], ("cb-held", b"1 1767225600000 1:81")]


@pytest.mark.parametrize("value", [b"v", b"v" * (SHUFFLED_BYTES + 1)], ids=["small", "large"])
def test_retries_of_a_group_without_an_account_need_the_jobs_signature(spark: SparkSession, value: bytes) -> None:
    """Else any producer could write to its retry topic and its dead letters."""
    unsigned = [OutgoingRecord(TOPICS.half, 1, b"k", value, headers) for headers in RETRIES.values()]
    by_shop, by_job = ([by(key, TOPICS.half, one, value) for one in RETRIES.values()] for key in (SHOP, JOB))
    found = taken(spark, *unsigned, *by_shop, *by_job)
    count = len(RETRIES)
    assert [row.kind for row in found] == [BROKEN] * 2 * count + [HALF] * count
    assert all(row.reason.endswith("and cb-signature is missing") for row in found[:count])
    assert all("it is signed with key shop-1" in row.reason for row in found[count : 2 * count])


def test_a_copy_elsewhere_or_of_another_time_is_refused(spark: SparkSession) -> None:
    half = by(SHOP, TOPICS.half, PLAIN)
    found = taken(spark, half._replace(partition=2), signed(half._replace(headers=PLAIN), SHOP, NOW_MS - 400_000))
    assert ["does not fit" in row.reason or "signed 400 s before" in row.reason for row in found] == [True, True]


def test_large_content_is_judged_by_what_is_here(spark: SparkSession) -> None:
    """The rest when it is read again: see tests/end_to_end/test_signatures.py."""
    large = b"x" * (SHUFFLED_BYTES + 1)
    good, foreign = by(SHOP, TOPICS.half, PLAIN, large), by(OPERATOR, TOPICS.half, PLAIN, large)
    many = [*PLAIN, ("wide", b"y" * (SHUFFLED_BYTES + 1))]
    wide, forged = by(SHOP, TOPICS.half, many), OutgoingRecord(TOPICS.half, 1, b"k", b"v", many)
    rows = [(one.topic, 1, at, b"k", one.value, list(one.headers), WHEN) for at, one in enumerate([good, wide])]
    assert [row.kind for row in decoding(spark, rows).collect()] == [HALF_KIND, LARGE_HALF_KIND]
    assert [row.kind for row in taken(spark, good, foreign, wide, forged)] == [HALF, BROKEN, HALF, BROKEN]
    short, long = (by(SHOP, TOPICS.half, [*many, ("cb-new", b"z" * size)]) for size in (300, 301))
    why = "a cb- header is too long for a signed half message of this size"
    assert [(row.kind, row.reason or "") for row in taken(spark, short, long)] == [(HALF, ""), (BROKEN, why)]


def _some_headers(random: Random, value: bytes) -> list[tuple[str, bytes | None]]:
    """A signed half message's headers: further ones of any kind among them before it was signed, or after."""
    headers: list[tuple[str, bytes | None]] = [*random.choice([PLAIN, HALVES["of a lane"]])]

    def add(*names: str) -> None:
        name = random.choice([*names, *(name for name, _ in headers)])
        headers.insert(random.randint(0, len(headers)), (name, random.choice([None, b"", dict(headers).get(name)])))

    if random.random() < 0.5:
        add("cb-new", "trace", "CB-SIGNATURE", "cb-partition")
    headers = [*by(SHOP, TOPICS.half, headers, value).headers]  # type: ignore[arg-type]  # anybody may write null
    if random.random() < 0.5:
        add(SIGNATURE, SIGNATURE, SIGNATURE, "cb-reason", "cb-new")
    if random.random() < 0.2:
        random.shuffle(headers)
    return headers


@pytest.mark.parametrize("size", [1, SHUFFLED_BYTES + 1], ids=["small", "large"])
def test_all_readers_agree_on_headers_that_are_null_or_repeated(spark: SparkSession, size: int) -> None:
    """A signature that the job has judged is the one by which the check service looks for copies; see own_headers."""
    random = Random(size)
    value = b"v" * size
    written = [_some_headers(random, value) for _ in range(300)]
    rows = [(TOPICS.half, 1, at, b"k", value, headers, WHEN) for at, headers in enumerate(written)]
    found = decoded_rows(spark, rows, VERIFIER)
    assert len({row.kind for row in found}) == 2, "some are taken, and some are not"
    for row, headers in zip(found, written, strict=True):
        names = [name for name, _ in headers if name.startswith("cb-")]
        own = own_headers(headers)
        assert wrong_with_own(headers) == ("" if len(names) == len(set(names)) else REPEATED)
        assert bool(own) == (len(names) == len(set(names)))
        if row.kind == BROKEN:
            assert row.reason == REPEATED or own, row.reason
            continue
        assert (row.transaction_id, row.group, row.topic) == ("tx-1", "shop", "orders")
        assert [own[name] for name in (ID, GROUP, TOPIC)] == [b"tx-1", b"shop", b"orders"], headers
        indexed = signature_rows([Row(headers=headers, offset=0)])
        assert indexed[1:].tolist() == [[0], [NOW_MS]], headers
