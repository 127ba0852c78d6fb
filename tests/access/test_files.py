"""One set of rules for policy files that change: for the job, which has a key, for check services and gateways."""

import os
from pathlib import Path

import pytest

from access.files import PolicyAndKeys, PolicyFiles
from access.marked import OwnKey
from checkback.exceptions import ConfigurationError
from conf.settings import AccessSettings

PROGRAMS = '[accounts.programs]\nkeys = ["job-1"]\nroles = ["job"]\n'
SHOP = '[accounts.shop]\ngroups = ["shop"]\ntopics = ["orders"]\nkeys = ["shop-1"]\n'
SMALL = '[accounts.small]\ngroups = ["small"]\ntopics = ["small"]\n'
WHOLE = PROGRAMS + SHOP + SMALL


class Files:
    """A program that looks at its files every two seconds."""

    def __init__(self, folder: Path, own: OwnKey | None) -> None:
        self._policy, self._secrets = folder / "access.toml", folder / "secrets.toml"
        self._policy.write_text(WHOLE, encoding="utf-8")
        self._secrets.write_text("".join(f'{key} = "{key * 8}"\n' for key in ("job-1", "shop-1")), encoding="utf-8")
        self._secrets.chmod(0o600)
        self._own = own
        self._seconds, self._writes = 0.0, 0
        self.files = self.start()

    def start(self) -> PolicyFiles:
        settings = AccessSettings(policy=str(self._policy), secrets=str(self._secrets))
        return PolicyFiles(settings, lambda: self._seconds, self._own)

    def after(self, policy: str, secrets: str | None = None) -> PolicyAndKeys:
        """What holds some looks after these were written."""
        self._write(self._policy, policy)
        if secrets is not None:
            self._write(self._secrets, secrets)
        for _ in range(3):
            self._seconds += 2
            in_force = self.files.now()
        return in_force

    def _write(self, file: Path, text: str) -> None:
        self._writes += 1
        file.write_text(text, encoding="utf-8")
        os.utime(file, ns=(self._writes, self._writes))


@pytest.fixture(params=[OwnKey("job-1"), None], ids=["job", "check service or gateway"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return Files(tmp_path, request.param)


@pytest.mark.parametrize(
    "text",
    ["", "# by the shop's team\n", "other_groups = 'deny'\n", PROGRAMS, SHOP, 'other_groups = "allow"\n', WHOLE[:9]],
)
def test_a_file_that_lost_most_of_its_accounts_changes_nothing(
    files: Files, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = files.files.now()
    assert files.after(text) is before
    assert files.files.wrong
    assert caplog.text.count("stays in force") == 1
    files.after(WHOLE)
    assert files.files.wrong == ""


def test_the_message_says_how_many_accounts_are_gone_and_what_to_write(files: Files) -> None:
    files.after(PROGRAMS)
    assert "no longer names 2 of 3 accounts, so it may have been truncated" in files.files.wrong
    assert files.files.wrong.endswith("write account_count = 1 at its top.")


def test_with_the_number_of_its_accounts_a_file_may_remove_most_of_them(files: Files) -> None:
    assert [*files.after(f"account_count = 1\n{PROGRAMS}").policy.accounts] == ["programs"]
    assert [*files.after("account_count = 0\n").policy.accounts] == []
    assert files.files.wrong == ""


def test_a_file_that_has_other_accounts_than_it_counts_changes_nothing(files: Files) -> None:
    before = files.after(f"account_count = 3\n{WHOLE}")
    assert files.after(f"account_count = 3\n{PROGRAMS}{SHOP}") is before
    assert "account_count is 3, but the file has 2 accounts" in files.files.wrong


def test_a_few_accounts_may_go_without_it(files: Files) -> None:
    assert [*files.after(PROGRAMS + SHOP).policy.accounts] == ["programs", "shop"]


def test_an_empty_file_ends_the_start(files: Files) -> None:
    files.after("")
    with pytest.raises(ConfigurationError, match="It names no account, so every message would be rejected"):
        files.start()
    files.after("account_count = 0\n")
    assert files.start().now().policy.accounts == {}


def test_a_key_that_was_taken_out_is_not_trusted_while_the_new_ones_secret_is_missing(files: Files) -> None:
    in_force = files.after(WHOLE.replace("shop-1", "shop-2"))
    assert in_force.keys.keys() == {"job-1"}
    assert in_force.policy.accounts["shop"].keys == ("shop-1",), "its records still need a signature"
    assert "access.secrets has no secret of" in files.files.wrong
    assert "shop-2" in files.files.wrong
    assert files.files.wrong.endswith(". Keys that the file no longer names are not trusted any more.")
    secrets = "".join(f'{key} = "{key * 8}"\n' for key in ("job-1", "shop-1", "shop-2"))
    in_force = files.after(WHOLE.replace("shop-1", "shop-2"), secrets)
    assert in_force.policy.accounts["shop"].keys == ("shop-2",)
    assert "shop-2" in in_force.keys
    assert files.files.wrong == ""


@pytest.mark.parametrize(
    ("text", "trusted"),
    [
        (WHOLE.replace('"shop-1"', '"shop-1", "new"'), {"job-1", "shop-1"}),
        (WHOLE.replace('["shop"]', '["more", "shop"]').replace('"shop-1"', '"shop-1", "new"'), {"job-1", "shop-1"}),
        (WHOLE.replace("accounts.shop", "accounts.store").replace('"shop-1"', '"shop-1", "new"'), {"job-1", "shop-1"}),
        (WHOLE.replace('groups = ["shop"]', 'groups = ["other"]').replace('"shop-1"', '"shop-1", "new"'), {"job-1"}),
        (WHOLE.replace("shop-1", "new") + '[accounts.o]\ngroups = ["o"]\nkeys = ["shop-1"]\n', {"job-1"}),
    ],
    ids=["beside it", "more groups", "another name", "other groups", "another account's"],
)  # fmt: skip
def test_meanwhile_a_key_keeps_its_trust_only_with_all_its_rights(files: Files, text: str, trusted: set[str]) -> None:
    in_force = files.after(text)
    assert "new" in files.files.wrong
    assert in_force.keys.keys() == trusted


def test_roles_that_were_taken_from_a_key_end_its_trust_except_the_jobs_own(tmp_path: Path) -> None:
    other = Files(tmp_path, None)
    text = WHOLE.replace('roles = ["job"]', 'roles = ["checks"]').replace("shop-1", "new")
    assert other.after(text).keys.keys() == set()
    job = Files(tmp_path, OwnKey("job-1"))
    assert job.after(text).keys.keys() == {"job-1"}, "without it all that the job holds would be rejected"


def test_secrets_that_were_cut_short_change_nothing(files: Files) -> None:
    before = files.files.now()
    in_force = files.after(WHOLE, "")
    assert in_force.keys == before.keys
    assert in_force.policy.accounts == before.policy.accounts
