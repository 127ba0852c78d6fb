"""Who may sign what, and what is said of records that are not signed by them."""

from typing import Any

import pytest

from access.policy import AccessPolicy, policy_of
from access.verifying import CHANGED, SERVICES_WINDOW_MS, WITHOUT_HASH, SignedRecord, Verifier, Writer, signs
from checkback.exceptions import ConfigurationError
from checkback.wire.signed_records import (
    PLAIN,
    WINDOW_MS,
    SigningKey,
    place_of,
    signature_header,
    signed_message,
    spelled,
    spelled_content,
)
from conf import Settings

POLICY = """
[accounts.shop]
groups = ["shop", "till"]
topics = ["*"]
keys = ["shop-1", "shop-2"]
[accounts.both]
groups = ["till"]
other_topics = "allow"
keys = ["both-1"]
[accounts.open]
groups = ["open"]
other_topics = "allow"
[accounts.people]
keys = ["ops-1"]
roles = ["operator"]
[accounts.programs]
keys = ["job-1"]
roles = ["job", "checks"]
"""
KEYS = {name: SigningKey(name, f"{name:x<40}") for name in ("shop-1", "shop-2", "both-1", "ops-1", "job-1")}
PLACE = place_of("cb.half", 0)
NOW_MS = 1_764_000_000_000
CLOCK_TOLERANCE_MS = Settings().job.clock_tolerance


@pytest.mark.parametrize(
    ("group", "writer", "keys"),
    [
        ("shop", Writer.PRODUCER, {"shop-1", "shop-2", "job-1"}),
        ("till", Writer.PRODUCER, {"shop-1", "shop-2", "both-1", "job-1"}),
        ("shop", Writer.CHECK, {"job-1"}),
        ("shop", Writer.OPERATOR, {"ops-1"}),
        ("shop", Writer.JOB, {"job-1"}),
        ("open", Writer.OPERATOR, None),
        ("stranger", Writer.PRODUCER, None),
        ("stranger", Writer.RETRY, {"job-1"}),
        ("stranger", Writer.JOB, {"job-1"}),
        ("stranger", Writer.OPERATOR, None),
        ("open", Writer.RETRY, None),
        ("shop", Writer.RETRY, {"shop-1", "shop-2", "job-1"}),
    ],
)
def test_who_signs(group: str, writer: Writer, keys: set[str] | None) -> None:
    assert signs(policy_of(POLICY), group, writer) == keys


@pytest.mark.parametrize("writer", [Writer.RETRY, Writer.JOB])
def test_retries_of_unnamed_groups_need_no_signature_if_other_groups_may_send_or_no_group_has_keys(
    writer: Writer,
) -> None:
    assert signs(policy_of(f'other_groups = "allow"\n{POLICY}'), "stranger", writer) is None
    without = '[accounts.open]\ngroups = ["open"]\n[accounts.programs]\nkeys = ["job-1"]\nroles = ["job"]\n'
    assert signs(policy_of(without), "stranger", writer) is None


def test_a_retry_of_an_unnamed_group_says_who_must_sign_it() -> None:
    record = SignedRecord("points", Writer.RETRY, None, NOW_MS, b"", b"")
    why = Verifier(policy_of(POLICY), KEYS).reason(record, PLACE)
    assert why.startswith("a retry of group points needs a key of its account, or of an account with the role job")
    assert why.endswith(", and cb-signature is missing")


SMALL, LARGE = b"v", b"v" * 5_000


def said(signed_by: str | None, writer: Writer = Writer.PRODUCER, value: bytes = SMALL, **changed: object) -> str:
    """Of a record of group *shop*."""
    headers = [("cb-id", b"tx"), ("cb-group", b"shop")]
    header = signature_header(KEYS[signed_by], PLACE, NOW_MS, (b"k", value), headers)[1] if signed_by else None
    record = SignedRecord("shop", writer, header, NOW_MS, spelled(headers), spelled_content(b"k", value, b""))
    record = record._replace(**changed)  # type: ignore[arg-type]  # its fields
    return Verifier(policy_of(POLICY), KEYS).reason(record, PLACE)


@pytest.mark.parametrize(
    ("signed_by", "writer", "changed", "reason"),
    [
        ("shop-1", Writer.PRODUCER, {}, ""),
        ("shop-2", Writer.PRODUCER, {}, ""),
        (None, Writer.PRODUCER, {}, "group shop has keys, and cb-signature is missing"),
        (None, Writer.PRODUCER, {"signature": b"x"}, "group shop has keys, and cb-signature is not what a signature"),
        (None, Writer.PRODUCER, {"group": "open"}, ""),
        (
            "both-1",
            Writer.PRODUCER,
            {},
            "it is signed with key both-1; what a producer writes of group shop needs a key of",
        ),
        (
            "shop-1",
            Writer.CHECK,
            {},
            "the answer to a check of group shop needs a key of an account with the role checks",
        ),
        (
            "shop-1",
            Writer.OPERATOR,
            {},
            "what an operator decides of group shop needs a key of an account with the role",
        ),
        ("shop-1", Writer.JOB, {}, "what the job holds of group shop needs"),
        ("ops-1", Writer.OPERATOR, {}, ""),
        ("job-1", Writer.CHECK, {}, ""),
        (
            "shop-1",
            Writer.PRODUCER,
            {"ours": spelled([("cb-id", b"tx"), ("cb-group", b"till")])},
            "does not fit key",
        ),
        ("shop-1", Writer.PRODUCER, {"content": spelled_content(b"k", b"w", b"")}, "or a changed record"),
        ("shop-1", Writer.PRODUCER, {"content": None}, WITHOUT_HASH),
        ("shop-1", Writer.PRODUCER, {"content": spelled_content(b"k", LARGE, b"")}, WITHOUT_HASH),
        ("shop-1", Writer.PRODUCER, {"value": LARGE}, ""),
        ("shop-1", Writer.PRODUCER, {"value": LARGE, "content": None}, ""),
        ("shop-1", Writer.PRODUCER, {"value": LARGE, "content": spelled_content(b"k", SMALL, b"")}, CHANGED),
        ("shop-1", Writer.PRODUCER, {"value": LARGE, "ours": b""}, "or changed headers"),
        ("shop-1", Writer.PRODUCER, {"time_ms": NOW_MS + WINDOW_MS}, ""),
        (
            "shop-1",
            Writer.PRODUCER,
            {"time_ms": NOW_MS + WINDOW_MS + 1},
            "signed 300 s before Kafka had it, more",
        ),
        ("shop-1", Writer.PRODUCER, {"time_ms": NOW_MS - WINDOW_MS - 1}, "signed 300 s after Kafka had it"),
        # the job moves what consumers send back by Kafka's clock, and within seconds
        ("job-1", Writer.PRODUCER, {"time_ms": NOW_MS + WINDOW_MS + 1}, "signed 300 s before Kafka had it"),
        *(
            (key, writer, {"time_ms": NOW_MS + off_ms}, reason)
            for key, writer in (("job-1", Writer.JOB), ("job-1", Writer.CHECK), ("ops-1", Writer.OPERATOR))
            for off_ms, reason in (
                (-CLOCK_TOLERANCE_MS, ""),
                (CLOCK_TOLERANCE_MS, ""),
                (SERVICES_WINDOW_MS, ""),
                (SERVICES_WINDOW_MS + 1, "signed 86400 s before Kafka had it, more than 86400 s"),
                (-SERVICES_WINDOW_MS - 1, "signed 86400 s after Kafka had it, more than 86400 s"),
            )
        ),
    ],
)
def test_what_is_said(signed_by: str | None, writer: Writer, changed: dict[str, Any], reason: str) -> None:
    found = said(signed_by, writer, **changed)
    assert (reason in found) if reason else (found == "")


@pytest.mark.parametrize("time", [b"9" * 16, b"9" * 5_000, b"x", b"-1", b"\xd9\xa1"])
def test_a_keys_owner_who_signs_nonsense_stops_nothing(time: bytes) -> None:
    content = spelled_content(b"k", b"v", b"")
    code = KEYS["shop-1"].code(signed_message(PLACE, b"shop-1", time, PLAIN + content, b""))
    signature = b" ".join([b"shop-1", time, code])
    verifier = Verifier(policy_of(POLICY), KEYS)
    record = SignedRecord("shop", Writer.PRODUCER, signature, NOW_MS, b"", content)
    assert "is not what a signature looks like" in verifier.reason(record, PLACE)


def test_a_key_belongs_to_one_account() -> None:
    with pytest.raises(ConfigurationError, match="key shop-1 is named twice"):
        policy_of('[accounts.a]\ngroups = []\nkeys = ["shop-1"]\n[accounts.b]\ngroups = []\nkeys = ["shop-1"]\n')


def test_thousands_of_names_are_forgotten_again() -> None:
    verifier = Verifier(AccessPolicy(), {})
    assert not any(verifier.needed(f"g{number}") for number in range(25_000))
    assert verifier.may_sign.cache_info().currsize <= 10_000  # type: ignore[attr-defined]  # of lru_cache
