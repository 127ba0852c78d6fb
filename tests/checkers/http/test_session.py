"""https endpoints: who is trusted, and what they are shown."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from checkback import CheckRequest, ConfigurationError, HalfPosition
from checkback.wire.protocol import Action
from checkers.ask import Asker, EndpointVerdict
from checkers.directory import Endpoint
from checkers.http.admission import AllowList
from checkers.http.session import open_session, tls_context
from conf.settings import CheckSettings
from tests.checkers.serving import http, serving

REQUEST = CheckRequest("tx", "orders", "paid", None, b"v", [], HalfPosition(0, 0), 1, 15, 0)
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for localhost that signs itself, and its key."""
    made, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost"),
            *("-addext", "keyUsage=digitalSignature,keyCertSign", "-keyout", str(key), "-out", str(made)),
        ],
        check=True,
        capture_output=True,
        timeout=30,
    )
    return made, key


def ask(url: str, **settings: str) -> EndpointVerdict:
    checks = CheckSettings.model_validate(settings)

    async def asked() -> EndpointVerdict:
        async with open_session(checks, AllowList([]), tls_context(checks)) as session:
            return (await Asker(session, AllowList([])).ask(Endpoint(url), [REQUEST])).verdicts[0]

    return asyncio.run(asked())


def server_tls(folder: Path) -> tuple[ssl.SSLContext, Path]:
    made, key = certificate(folder, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return context, made


@needs_openssl
def test_only_an_authority_of_the_settings_is_trusted(tmp_path: Path) -> None:
    tls, authority = server_tls(tmp_path)
    with serving(http(b'{"state": "commit"}'), tls) as served:
        url = f"https://localhost:{served.port}/"
        assert ask(url, tls_ca=str(authority)) == EndpointVerdict(Action.COMMIT, "")
        untrusted = ask(url)
        assert untrusted.action is Action.UNREACHABLE
        assert untrusted.remark == f"{url}: its certificate is not accepted: self-signed certificate"
        assert ask(f"https://127.0.0.1:{served.port}/", tls_ca=str(authority)).action is Action.UNREACHABLE


@needs_openssl
def test_the_certificate_of_the_settings_is_shown(tmp_path: Path) -> None:
    tls, authority = server_tls(tmp_path)
    ours, key = certificate(tmp_path, "ours")
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(ours)
    with serving(http(b'{"state": "commit"}'), tls) as served:
        url = f"https://localhost:{served.port}/"
        shown = ask(url, tls_ca=str(authority), tls_certificate=str(ours), tls_key=str(key))
        assert shown == EndpointVerdict(Action.COMMIT, "")
        assert ask(url, tls_ca=str(authority)).action is not Action.COMMIT


def test_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    for settings in ({"tls_ca": "not there"}, {"tls_certificate": "not there"}, {"tls_certificate": str(empty)}):
        with pytest.raises(ConfigurationError, match="cannot be used"):
            tls_context(CheckSettings.model_validate(settings))
