"""A gateway's clients lose an account as soon as the policy no longer names what they showed."""

import os
from pathlib import Path

import pytest

from access.credentials import Caller
from access.files import PolicyFiles
from checkback.wire.protocol import Topics
from checkback.wire.signed_records import SigningKey
from conf.settings import AccessSettings
from gateway.accounts import Accounts
from gateway.refusals import GatewayError


def test_a_revoked_key_opens_nothing_before_the_new_keys_secret_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, secrets = tmp_path / "access.toml", tmp_path / "secrets.toml"
    named = '[accounts.shop]\ngroups = ["shop"]\ntopics = ["orders"]\nkeys = ["shop-1"]\n'
    policy.write_text(named, encoding="utf-8")
    secrets.write_text(f'shop-1 = "{"s" * 40}"\n', encoding="utf-8")
    secrets.chmod(0o600)
    accounts = Accounts(AccessSettings(policy=str(policy), secrets=str(secrets)), Topics())
    token = f"Bearer {SigningKey('shop-1', 's' * 40).bearer_token}"
    caller = accounts.of_bearer(token)
    assert caller == Caller("shop", "shop-1")
    assert accounts.may_act(caller, "shop")
    monkeypatch.setattr(PolicyFiles, "_settled", lambda *_: True)
    policy.write_text(named.replace("shop-1", "shop-2"), encoding="utf-8")
    os.utime(policy, ns=(1, 1))
    with pytest.raises(GatewayError, match="not one of an account's"):
        accounts.of_bearer(token)
    assert not accounts.may_act(caller, "shop"), "over a connection that was opened before"
    with pytest.raises(GatewayError, match="no key of group shop"):
        accounts.signing(caller, "shop")
