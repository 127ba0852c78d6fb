"""Who a client of a gateway is, by what it shows."""

import hashlib
import hmac
from contextlib import nullcontext
from datetime import UTC, datetime

import pytest

from access.credentials import Caller, Credentials
from access.policy import FOREIGN_GROUP, acts_for, judge, policy_of
from checkback.exceptions import ConfigurationError
from checkback.wire.protocol import Topics
from checkback.wire.signature import NotTrustedError
from checkback.wire.signed_records import SigningKey

POLICY = policy_of("""
[accounts.shop]
groups = ["shop", "shop.*"]
topics = ["orders"]
keys = ["shop.1", "shop.2"]
[accounts.bank]
groups = ["bank"]
topics = ["*"]
keys = ["bank-1"]
""")
KEYS = {name: SigningKey(name, f"{name:x<40}") for name in ("shop.1", "bank-1", "nobodys")}
CREDENTIALS = Credentials(POLICY, KEYS)
WHEN = "20261126T235959Z"
NOW_MS = int(datetime(2026, 11, 26, 23, 59, 59, tzinfo=UTC).timestamp()) * 1_000


SECRET = f"{'shop.1':x<40}"


def shown(key_id: str, secret: str, form: str = "{}, SignedHeaders=x-mq-date-time, Signature={}") -> str:
    signature = hmac.digest(secret.encode(), WHEN.encode(), hashlib.sha1).hex().upper()
    return "MQv2-HMAC-SHA1 Credential=" + form.format(key_id, signature)


@pytest.mark.parametrize(
    "form",
    [
        "{}, SignedHeaders=x-mq-date-time, Signature={}",
        "{}//Rocketmq, SignedHeaders=x-mq-date-time, Signature={}",
        "{}/cn/Rocketmq,Signature={}",
    ],
)
def test_an_access_key_and_its_secret_as_rocketmqs_clients_write_them(form: str) -> None:
    assert CREDENTIALS.of_rocketmq(shown("shop.1", f"{'shop.1':x<40}", form), WHEN, NOW_MS) == Caller("shop", "shop.1")


@pytest.mark.parametrize(
    ("authorization", "when"),
    [
        (shown("shop.1", "another"), WHEN),
        (shown("shop.1", f"{'shop.1':x<40}"), "20261126T235958Z"),
        (shown("shop.2", f"{'shop.2':x<40}"), WHEN),  # named, and no secret here
        (shown("nobodys", f"{'nobodys':x<40}"), WHEN),  # a secret, and no account names it
        (shown("bank-1", f"{'shop.1':x<40}"), WHEN),
        (shown("", ""), WHEN),
        ("MQv2-HMAC-SHA1 Credential=shop.1, Signature=", WHEN),
        ("Basic c2hvcC4xOng=", WHEN),
        ("", ""),
        ("MQv2-HMAC-SHA1 " + "Credential=a, " * 10_000, WHEN),
        (shown("shop.1\u0661", "s"), "\ud800"),
        (f"{shown('shop.1', SECRET)}, Signature={'0' * 40}", WHEN),
        (shown("shop.1", SECRET).replace("SHA1 ", "SHA1 Credential=bank-1, "), WHEN),
        (shown("shop.1", SECRET) + " " * 1_000, WHEN),
    ],
)
def test_any_other_is_not_believed_and_no_secret_is_shown(authorization: str, when: str) -> None:
    with pytest.raises(NotTrustedError) as raised:
        CREDENTIALS.of_rocketmq(authorization, when, NOW_MS)
    assert "xxx" not in str(raised.value)


@pytest.mark.parametrize(("hours", "taken"), [(-26, True), (26, True), (-27, False), (27, False)])
def test_what_was_signed_a_day_ago_is_a_copy(hours: int, taken: bool) -> None:  # noqa: FBT001  (a parameter of the test)
    """No narrower: some clients write local time as if it were UTC."""
    now_ms = NOW_MS + hours * 3_600_000
    with nullcontext() if taken else pytest.raises(NotTrustedError, match="26 hours away"):
        CREDENTIALS.of_rocketmq(shown("shop.1", SECRET), WHEN, now_ms)


@pytest.mark.parametrize("when", ["", "2026-11-26T23:59:59Z", "20261126T235959", "20261326T235959Z", "x"])
def test_a_time_that_is_none_is_refused(when: str) -> None:
    signature = hmac.digest(SECRET.encode(), when.encode(), hashlib.sha1).hex()
    with pytest.raises(NotTrustedError, match="is not a time like"):
        CREDENTIALS.of_rocketmq(f"MQv2-HMAC-SHA1 Credential=shop.1, Signature={signature}", when, NOW_MS)


def test_who_guesses_does_not_learn_which_keys_there_are() -> None:
    said = set()
    for key_id in ("shop.1", "shop.2", "nobodys", "made-up"):
        with pytest.raises(NotTrustedError) as raised:
            CREDENTIALS.of_rocketmq(shown(key_id, "wrong"), WHEN, NOW_MS)
        said.add(str(raised.value))
    assert len(said) == 1


def test_a_token_says_who_somebody_is_and_signs_nothing() -> None:
    key = KEYS["shop.1"]
    assert CREDENTIALS.of_bearer(f"Bearer {key.bearer_token}") == Caller("shop", "shop.1")
    assert CREDENTIALS.of_bearer(f"bearer  {KEYS['bank-1'].bearer_token} ") == Caller("bank", "bank-1")
    assert "xxx" not in key.bearer_token
    other = SigningKey("shop.1", "y" * 40).bearer_token
    for wrong in (
        other,
        key.bearer_token[:-1],
        key.bearer_token + "A",
        "shop.1",
        ".",
        "",
        KEYS["nobodys"].bearer_token,
    ):
        with pytest.raises(NotTrustedError):
            CREDENTIALS.of_bearer(f"Bearer {wrong}")
    for authorization in (
        "",
        "Bearer shop.1.\ud800",
        key.bearer_token,
        f"Basic {key.bearer_token}",
        f"Bearer {key.bearer_token} x",
    ):
        with pytest.raises(NotTrustedError):
            CREDENTIALS.of_bearer(authorization)


def test_an_account_sends_as_its_own_groups_only() -> None:
    own = Topics()
    assert judge(POLICY, "shop.eu", "orders", own, caller="shop").allowed
    refused = judge(POLICY, "shop", "orders", own, caller="bank")
    assert (refused.rule, refused.reason) == (
        FOREIGN_GROUP,
        "account bank may not send as group shop, which it does not name",
    )
    assert judge(POLICY, "bank", "cb.retry.shop", own, caller="bank").reason != ""
    assert acts_for(POLICY, "shop", "shop.eu")
    assert not acts_for(POLICY, "bank", "shop")
    assert not acts_for(POLICY, "bank", "nobody's")


def test_certificates_are_refused_because_no_gateway_asks_for_them() -> None:
    with pytest.raises(ConfigurationError, match="certificates"):
        policy_of('[accounts.a]\ngroups = ["a"]\ncertificates = ["a"]\n')
