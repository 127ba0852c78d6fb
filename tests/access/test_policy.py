"""Who may send where: each rule of the table, and what a file may not say."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from access.policy import RULES, AccessPolicy, doubts, judge, left_open, policy_of
from checkback.exceptions import ConfigurationError
from checkback.wire.protocol import Topics
from checkback_cli import app
from conf.secrets_file import read_keys

OWN = Topics()
POLICY = policy_of("""
[accounts.shop]
groups = ["shop", "shop.*"]
topics = ["orders", "invoices.*"]
not_topics = ["invoices.internal"]

[accounts.auditing]
groups = ["shop.audit"]
topics = ["invoices.internal", "audit"]

[accounts.tests]
groups = ["test*"]
other_topics = "allow"
not_topics = ["orders"]
""")


@pytest.mark.parametrize(
    ("group", "topic", "rule", "reason"),
    [
        ("shop", "orders", "allowed", ""),
        ("shop.eu", "invoices.2026", "allowed", ""),
        ("shop.audit", "audit", "allowed", ""),
        ("shop", "invoices.internal", "denied", "which its account (shop) denies"),
        ("shop.audit", "invoices.internal", "denied", "which its account (shop) denies"),
        ("shop", "audit", "other topic", "which its account (shop) does not name"),
        ("shop.audit", "payments", "other topic", "which its account (shop and auditing) does not name"),
        ("shopping", "orders", "other group", "no account names that group"),
        ("test-7", "anything", "other topic", ""),
        ("test-7", "orders", "denied", "which its account (tests) denies"),
        ("points", "cb.retry.points", "own retry", ""),
        ("points", "cb.dlq.points", "own retry", ""),
        ("test-7", "cb.retry.points", "foreign retry", "which is another group's"),
        ("shop", "cb.dlq.points", "foreign retry", "which is another group's"),
    ],
)
def test_each_rule(group: str, topic: str, rule: str, reason: str) -> None:
    verdict = judge(POLICY, group, topic, OWN)
    assert (verdict.rule.name, verdict.allowed) == (rule, not reason)
    assert verdict.reason.startswith(f"group {group} may not send to {topic}" if reason else "")
    assert verdict.reason.endswith(reason)


def test_groups_that_nobody_names_may_be_let_through() -> None:
    open_one = policy_of('other_groups = "allow"\n[accounts.shop]\ngroups = ["shop"]')
    assert judge(open_one, "other", "orders", OWN).allowed
    assert not judge(open_one, "shop", "orders", OWN).allowed
    assert not judge(open_one, "other", "cb.retry.points", OWN).allowed


def test_every_rule_has_its_row_and_says_why_not() -> None:
    assert {rule.allowed for rule in RULES} == {True, False}
    assert all(bool(rule.reason) is not rule.allowed for rule in RULES)


_NAMES = st.sampled_from(["a", "ab", "abc", "b", "cb.retry.a", "cb.dlq.ab"])
_PATTERNS = st.lists(st.sampled_from(["a", "a*", "ab*", "b", "*", "c"]), max_size=3)
_ACCOUNTS = st.fixed_dictionaries(
    {
        "groups": _PATTERNS,
        "topics": _PATTERNS,
        "not_topics": _PATTERNS,
        "other_topics": st.sampled_from(["allow", "deny"]),
    }
)


@given(st.lists(_ACCOUNTS, max_size=3), st.sampled_from(["allow", "deny"]), _NAMES, _NAMES)
def test_deny_wins_whatever_else_is_said(
    accounts: list[dict[str, object]], others: str, group: str, topic: str
) -> None:
    """Against the sentence of the page, written down plainly."""
    named = {str(number): account for number, account in enumerate(accounts)}
    policy = AccessPolicy.model_validate({"accounts": named, "other_groups": others})

    def fits(patterns: object, name: str) -> bool:
        assert isinstance(patterns, list)
        return any(one == name or (one[-1] == "*" and name.startswith(one[:-1])) for one in patterns)

    of_group = [account for account in accounts if fits(account["groups"], group)]
    assert [named[name] for name in policy.of_group(group)] == of_group
    if topic.startswith(("cb.retry.", "cb.dlq.")):
        may = topic.split(".", 2)[2] == group
    elif any(fits(account["not_topics"], topic) for account in of_group):
        may = False
    elif of_group:
        may = any(fits(account["topics"], topic) or account["other_topics"] == "allow" for account in of_group)
    else:
        may = others == "allow"
    assert judge(policy, group, topic, OWN).allowed is may


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[accounts.a]\ngroup = ['a']", r"accounts\.a\.group: unknown key \(did you mean groups\?\)"),
        ("[account.a]\ngroups = ['a']", r"account: unknown key \(did you mean accounts\?\)"),
        ("[accounts.a]\nkeys = 'a'", r"accounts\.a\.keys: a list is wanted"),
        ("[accounts.a]\nkeys = ['a']\n[accounts.b]\nkeys = ['a']", "key a is named twice, by a and b"),
        ("[accounts.a]\ngroups = ['a*b']", "a star stands for the rest of a name, so at the end only"),
        ("[accounts.a]\ngroups = ['']", "cb-group"),
        ("[accounts.a]\ngroups = ['a']\ntopics = ['ü']", "must be a name Kafka allows"),
        ("[accounts.a]\ngroups = ['a']\nother_topics = 'perhaps'", "'allow' or 'deny'"),
        ("[accounts.a]\ngroups = 'a'", r"accounts\.a\.groups"),
        ("[accounts.a", "It is not TOML"),
        ("#" * 300_000, "at most 256 KiB"),
    ],
)
def test_a_file_that_is_wrong_says_where(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        policy_of(text)


def test_what_is_lawful_and_hardly_meant_is_said() -> None:
    assert list(doubts(policy_of("account_count = 0"))) == ["It names no account, so nobody may send anything."]
    found = list(doubts(policy_of("[accounts.a]\ngroups = []\n[accounts.b]\ngroups = ['b']")))
    assert [line.split()[1] for line in found] == ["a", "b"]
    assert list(doubts(POLICY)) == []


def test_what_a_policy_leaves_open_is_said() -> None:
    *found, last = list(
        left_open(
            policy_of(
                """other_groups = "allow"
                [accounts.shop]
                groups = ["shop"]
                topics = ["orders"]
                keys = ["shop-1"]
                [accounts.tests]
                groups = ["*"]
                other_topics = "allow"
                not_topics = ["orders"]
                [accounts.all]
                groups = ["all"]
                topics = ["*"]
                [accounts.people]
                keys = ["ops-1"]
                roles = ["operator"]"""
            )
        )
    )
    assert found == [
        "Groups that no account names may send to any topic.",
        "Groups of account tests may send to any topic but its not_topics.",
        "Every group belongs to account tests.",
        "Groups of account all may send to any topic.",
    ]
    assert last.startswith("What is written of groups of tests, all is believed unsigned: ")
    assert list(left_open(policy_of('[accounts.a]\ngroups = ["a"]\ntopics = ["t"]\nkeys = ["k"]'))) == []


@pytest.mark.parametrize(("keys", "gaps"), [("", 1), ('keys = ["shop-1"]', 0)])
def test_retries_of_unnamed_consumer_groups_are_stated_as_open_without_keys(keys: str, gaps: int) -> None:
    policy = policy_of(f'[accounts.shop]\ngroups = ["shop"]\ntopics = ["orders"]\n{keys}')
    assert judge(policy, "points", OWN.retry("points"), OWN).allowed
    assert sum("consumer groups that no account names" in gap for gap in left_open(policy)) == gaps


def test_a_key_is_made_as_a_line_for_the_file_of_secrets(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["access", "key", "shop.2026"], catch_exceptions=False)
    file = tmp_path / "secrets.toml"
    file.write_text(said.output, encoding="utf-8")
    assert [key.id for key in read_keys(str(file)).values()] == ["shop.2026"]
    assert CliRunner().invoke(app, ["access", "key", "shop.2026"]).output != said.output


@pytest.mark.parametrize(
    "text",
    [
        "[accounts.shop]\nlimits = { open = true }",
        "[accounts.shop]\nlimits = { open = 1.0 }",
        "[accounts.shop]\nlimits = { open = 0 }",
        "[accounts.shop]\nlimits = { opened = 1 }",
        '[accounts."two\\nlines"]',
        f"[accounts.{'a' * 256}]",
        f"a = {'9' * 5_000}",
        f"a = {'[' * 100_000}",
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_policy_is_an_error_that_says_so(text: str) -> None:
    with pytest.raises(ConfigurationError):
        policy_of(text)
