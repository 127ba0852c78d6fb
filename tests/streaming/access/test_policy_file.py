"""The policy file is read again when it has changed; what cannot be used changes nothing, loudly."""

import itertools
import os
from pathlib import Path

import pytest

from access.verifying import Writer
from checkback.exceptions import ConfigurationError
from conf.settings import AccessSettings
from streaming.access.policy_in_force import PolicyFile
from streaming.access.told import _verifier

SHOP = '[accounts.shop]\ngroups = ["shop"]\ntopics = ["orders"]\n'
MORE = '[accounts.shop]\ngroups = ["shop"]\ntopics = ["orders", "invoices"]\n'


class Looking:
    """A job that looks at its file every two seconds."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds = 0.0
        self.policy = PolicyFile(AccessSettings(policy=str(file)), lambda: self._seconds)
        self.holds = self.policy.first

    def write(self, text: str) -> None:
        before = self._file.stat().st_mtime_ns
        self._file.write_text(text, encoding="utf-8")
        os.utime(self._file, ns=(before + 1, before + 1))

    def look(self, times: int = 1) -> str:
        for _ in range(times):
            self._seconds += 2
            self.holds = self.policy.now()
        return self.holds


@pytest.fixture
def looking(tmp_path: Path) -> Looking:
    file = tmp_path / "access.toml"
    file.write_text(SHOP, encoding="utf-8")
    return Looking(file)


def test_a_change_is_taken_once_the_file_is_no_longer_being_written(looking: Looking) -> None:
    first = looking.look()
    assert first == looking.policy.first
    looking.write(MORE)
    assert looking.look() == first, "it may be half of a file"
    assert "invoices" in looking.look()
    assert looking.policy.wrong == ""


@pytest.mark.parametrize("text", ["[accounts.shop", '[accounts.shop]\ngroup = ["shop"]', "\x00", ""])
def test_what_is_no_policy_changes_nothing_until_it_is_one_again(
    looking: Looking, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = looking.holds
    looking.write(text)
    assert looking.look(4) == first
    assert "access.policy" in looking.policy.wrong
    assert caplog.text.count("stays in force") == 1
    looking.write(MORE)
    assert "invoices" in looking.look(2)
    assert looking.policy.wrong == ""


def test_who_asks_later_is_told_which_policy_it_was_and_whose_file(looking: Looking, tmp_path: Path) -> None:
    first, again = (looking.policy.said_of("checkback", batch, looking.holds) for batch in (7, 8))
    file = tmp_path / "access.toml"
    assert first.who == f"owner of the file: {file.owner()}"
    assert first.what.startswith("job checkback: policy ")
    assert f"from batch 7 on; {file}, changed 20" in first.what
    fingerprint = first.what.split()[3]
    assert again.what.split()[3] == fingerprint
    looking.write(MORE)
    assert looking.policy.said_of("checkback", 9, looking.look(2)).what.split()[3] != fingerprint
    assert looking.policy.said_of("checkback", 9, "").what == "job checkback: no policy from batch 9 on"


def test_a_policy_that_only_the_checkpoint_has_names_no_file(looking: Looking) -> None:
    kept = looking.holds
    looking.write(MORE)
    looking.look(2)
    for now in (PolicyFile(AccessSettings()), looking.policy):
        record = now.said_of("checkback", 7, kept)
        assert record.who == ""
        assert record.what.startswith("job checkback: policy ")
        assert record.what.endswith("from batch 7 on; as an earlier start kept it in the checkpoint")


def test_a_file_that_is_gone_changes_nothing(looking: Looking, tmp_path: Path) -> None:
    first = looking.holds
    (tmp_path / "access.toml").rename(tmp_path / "elsewhere")
    assert looking.look(3) == first
    assert "cannot read" in looking.policy.wrong
    (tmp_path / "elsewhere").rename(tmp_path / "access.toml")
    assert looking.look(3) == first
    assert looking.policy.wrong == ""


def test_at_the_start_it_has_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"access\.policy: cannot read .*none: No such file"):
        PolicyFile(AccessSettings(policy=str(tmp_path / "none")))
    (tmp_path / "wrong").write_text("account = 1")
    with pytest.raises(ConfigurationError, match=r"access\.policy: .*wrong: .*\n.*did you mean accounts"):
        PolicyFile(AccessSettings(policy=str(tmp_path / "wrong")))


def test_records_of_a_revoked_key_are_rejected_before_the_new_keys_secret_is_there(tmp_path: Path) -> None:
    file, secrets = tmp_path / "access.toml", tmp_path / "secrets.toml"
    keyed = '[accounts.shop]\ngroups = ["shop"]\nkeys = ["shop-1"]\n'
    keyed += '[accounts.programs]\nkeys = ["job"]\nroles = ["job"]\n'
    file.write_text(keyed, encoding="utf-8")
    secrets.write_text(f'shop-1 = "{"s" * 40}"\njob = "{"j" * 40}"\n', encoding="utf-8")
    looks = itertools.count(step=2)
    policy = PolicyFile(AccessSettings(policy=str(file), secrets=str(secrets), key="job"), lambda: float(next(looks)))

    def trusted(text: str) -> set[bytes]:
        verifier = _verifier(text, str(secrets))
        assert verifier is not None
        return {*(verifier.may_sign("shop", Writer.PRODUCER) or ())}

    assert trusted(policy.first) == {b"shop-1", b"job"}
    file.write_text(keyed.replace("shop-1", "shop-2"), encoding="utf-8")
    policy.now()
    assert trusted(policy.now()) == {b"job"}


def test_without_a_file_there_is_no_policy() -> None:
    none = PolicyFile(AccessSettings())
    assert (none.first, none.now(), none.wrong) == ("", "", "")
