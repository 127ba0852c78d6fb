"""A policy as the job fixes it: with marks of its keys, and none that would lose what the job holds."""

import pytest

from access.marked import OwnKey, lacking, marked
from access.policy import AccountRole, policy_of
from checkback.exceptions import ConfigurationError
from checkback.wire.signed_records import SigningKey

SHOP = '[accounts.shop]\ngroups = ["shop"]\nkeys = ["shop-1"]\n'
JOB = '[accounts.programs]\nkeys = ["job-1"]\nroles = ["job"]\n'
KEYS = {name: SigningKey(name, name * 10) for name in ("shop-1", "job-1", "other-1")}


def test_it_marks_the_keys_that_it_names_and_shows_no_secret() -> None:
    found = marked(policy_of(SHOP + JOB), KEYS, OwnKey("job-1"))
    assert found.marks.keys() == {"shop-1", "job-1"}
    assert not any(name * 10 in found.model_dump_json() for name in KEYS)
    assert lacking(found, KEYS) == []
    assert lacking(found, {**KEYS, "shop-1": SigningKey("shop-1", "another" * 10)}) == ["shop-1"]
    assert lacking(found, {"shop-1": KEYS["shop-1"]}) == ["job-1"]


@pytest.mark.parametrize(
    ("policy", "own", "said"),
    [
        (SHOP + JOB, "", "let access.key name a key of an account"),
        (SHOP + JOB, "shop-1", "let access.key name a key of an account"),
        (SHOP, "job-1", "let access.key name a key of an account"),
        (SHOP + JOB + '[accounts.b]\nkeys = ["b-1"]\n', "job-1", "no secret of: b-1"),
    ],
)
def test_what_cannot_hold(policy: str, own: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        marked(policy_of(policy), KEYS, OwnKey(own))


def test_what_the_job_itself_answers_and_decides_must_be_signed_too() -> None:
    wanted = OwnKey("job-1", (AccountRole.JOB, AccountRole.CHECKS))
    with pytest.raises(ConfigurationError, match=r'roles = \["job", "checks"\]'):
        marked(policy_of(SHOP + JOB), KEYS, wanted)
    assert marked(policy_of(SHOP + JOB.replace('["job"]', '["checks", "job"]')), KEYS, wanted).marks


def test_without_keys_nothing_is_asked_for() -> None:
    assert marked(policy_of('[accounts.shop]\ngroups = ["shop"]\n'), {}, OwnKey("")).marks == {}
