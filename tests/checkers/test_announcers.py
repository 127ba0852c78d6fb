"""Whose announcements are believed: judged by the files of the access policy."""

import errno
import logging
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from checkback import ConfigurationError
from checkback.kafka.signing import signed
from checkback.kafka.transport import OutgoingRecord
from checkback.wire.checks import Announcement, announcement_key
from checkback.wire.signed_records import WINDOW_MS, SigningKey
from checkers.announcers import Announcers
from conf import Settings

KEY, OTHER = SigningKey("shop-1", "a" * 40), SigningKey("other-1", "b" * 40)
NOW_MS = 1_700_000_000_000
POLICY = """
[accounts.shop]
groups = ["shop", "shop.*"]
topics = ["*"]
keys = ["shop-1"]

[accounts.other]
groups = ["other"]
topics = ["*"]
keys = ["other-1"]

[accounts.programs]
keys = ["job-1"]
roles = ["job", "checks"]
"""


class Announced(NamedTuple):
    """A record as kafka-python gives it."""

    key: bytes
    value: bytes | None
    headers: Any
    timestamp: int = NOW_MS


def record(
    signing: SigningKey | None, group: str = "shop", topic: str = "cb.producers", partition: int = 0
) -> Announced:
    written = OutgoingRecord(topic, partition, *Announcement(group, "a", "http://a/", 0).to_record(), [])
    if signing is not None:
        written = signed(written, signing, NOW_MS)
    return Announced(written.key or b"", written.value, list(written.headers))


class Scene:
    """A policy, its secrets, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.policy, self.secrets, self.now = folder / "access.toml", folder / "secrets.toml", 0.0
        self.policy.write_text(POLICY, encoding="utf-8")
        self.secrets.write_text(f'"shop-1" = "{"a" * 40}"\n"other-1" = "{"b" * 40}"\n', encoding="utf-8")
        self.secrets.chmod(0o600)
        self.announcers = self.made()

    def made(self) -> Announcers:
        access = {"policy": str(self.policy), "secrets": str(self.secrets)}
        return Announcers(Settings.model_validate({"access": access}), lambda: self.now)

    def why(self, given: Announced, group: str = "shop") -> str:
        return self.announcers.belief(given).refusal(group)

    def change(self, policy: str) -> None:
        """And wait until it is taken."""
        self.policy.write_text(policy, encoding="utf-8")
        os.utime(self.policy, ns=(int(self.now * 1e9) + 1, int(self.now * 1e9) + 1))
        for _ in range(3):
            self.announcers.belief(record(None))
            self.now += 2


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_of_a_group_with_keys_only_its_own_signature_is_believed(scene: Scene) -> None:
    assert scene.why(record(KEY)) == ""
    assert scene.why(record(KEY, "shop.eu"), "shop.eu") == ""
    assert "cb-signature is missing" in scene.why(record(None))
    assert "needs a key of its account" in scene.why(record(OTHER))
    assert "its signature does not fit" in scene.why(record(SigningKey("shop-1", "c" * 40)))
    assert scene.why(record(None, "free"), "free") == ""


def test_who_can_make_up_a_group_decides_what_gives_way_to_it(scene: Scene) -> None:
    named = '[accounts.shop]\ngroups = ["shop"]\nkeys = ["shop-1"]\n[accounts.bills]\ngroups = ["bills"]\n'
    scene.change(f"account_count = 2\n{named}")
    belief = scene.announcers.belief(record(None))
    assert [belief.rank(group) for group in ("shop", "bills", "made-up")] == [2, 1, 0]


def test_a_signed_one_is_believed_of_no_other_group_and_at_no_other_place_or_time(scene: Scene) -> None:
    mine = record(KEY)
    assert "needs a key of its account" in scene.why(mine, "other")
    assert "another place" in scene.why(record(KEY, topic="other.producers"))
    assert "another place" in scene.why(record(KEY, partition=1))
    assert "it is a copy, or a clock is wrong" in scene.why(mine._replace(timestamp=NOW_MS + WINDOW_MS + 1))
    moved = (mine.value or b"").replace(b"http://a/", b"http://b/")
    assert "or a changed record" in scene.why(mine._replace(value=moved))
    assert "or a changed record" in scene.why(mine._replace(value=None))


def test_who_signed_it_may_take_it_back(scene: Scene) -> None:
    written = signed(OutgoingRecord("cb.producers", 0, announcement_key("shop", "a"), None, []), KEY, NOW_MS)
    assert scene.why(Announced(written.key or b"", None, list(written.headers))) == ""


def test_a_key_without_a_secret_here_signs_nothing_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(tmp_path)
    scene.secrets.write_text(f'"other-1" = "{"b" * 40}"\n', encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        scene.announcers = scene.made()
        assert scene.why(record(KEY)) != ""
        assert scene.why(record(OTHER, "other"), "other") == ""
    assert "access.secrets has no secret of shop-1" in caplog.text


def test_changes_are_taken_and_wrong_ones_are_not(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.change('account_count = 1\n[accounts.shop]\ngroups = ["shop"]\n')
    assert scene.why(record(None)) == ""
    scene.change(POLICY)
    assert scene.why(record(None)) != ""
    with caplog.at_level(logging.WARNING):
        scene.change('[accounts.shop]\ngroup = ["shop"]\n')
    assert scene.why(record(None)) != ""
    assert "stays in force" in caplog.text
    scene.policy.unlink()
    assert scene.why(record(None)) != ""


def test_files_that_are_cut_short_change_nothing(scene: Scene) -> None:
    whole = scene.secrets.read_text(encoding="utf-8")
    for secrets, policy in (("", POLICY), (whole, ""), (whole, POLICY[:5])):
        scene.secrets.write_text(secrets, encoding="utf-8")
        scene.change(policy)
        assert scene.why(record(KEY)) == ""
        assert scene.why(record(None)) != ""
        scene.secrets.write_text(whole, encoding="utf-8")
        scene.change(POLICY)


def test_a_revoked_key_announces_nothing_before_the_new_keys_secret_is_there(scene: Scene) -> None:
    scene.change(POLICY.replace("shop-1", "new"))
    assert "needs a key of its account" in scene.why(record(KEY))
    assert "cb-signature is missing" in scene.why(record(None))
    assert scene.why(record(OTHER, "other"), "other") == ""


def test_what_cannot_be_read_for_a_while_is_taken_then(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> str:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as away:
        away.setattr(Path, "read_text", fails)
        scene.change('account_count = 1\n[accounts.shop]\ngroups = ["shop"]\n')
        assert scene.why(record(None)) != ""
    scene.now += 2
    assert scene.why(record(None)) == ""


def test_names_that_somebody_makes_up_fill_no_log(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for number in range(1_000):
            assert scene.why(record(None, f"shop.{number}"), f"shop.{number}") != ""
    assert len(caplog.records) == 20


def test_the_same_is_said_once_a_minute(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for scene.now in (10, 20, 69, 71, 72):
            scene.why(record(None))
    why = "group shop has keys, and cb-signature is missing"
    said = f"An announcement of an endpoint of group shop is not believed: {why}."
    assert [one.getMessage() for one in caplog.records] == [said] * 2


def test_the_limits_are_those_of_the_groups_accounts(scene: Scene) -> None:
    scene.change(POLICY.replace('keys = ["shop-1"]', 'keys = ["shop-1"]\nlimits = { endpoints = 7, open = 3 }'))
    belief = scene.announcers.belief(record(KEY))
    assert (belief.limits("shop.eu"), belief.limits("other"), belief.limits("free")) == ({"shop": 7}, {}, {})


def test_without_a_policy_all_are_believed() -> None:
    assert Announcers(Settings()).belief(record(None)).refusal("shop") == ""


@pytest.mark.parametrize("policy", ["accounts = 3", "[", None])
def test_at_the_start_a_wrong_file_is_an_error(scene: Scene, policy: str | None) -> None:
    if policy is None:
        scene.policy.unlink()
    else:
        scene.policy.write_text(policy, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"access\.policy"):
        scene.made()
