"""Brokers with TLS: certificates of an authority of the test's own, made by openssl."""

import subprocess
from pathlib import Path


def certificate(folder: Path, name: str, *signed: str) -> None:
    """A key and a certificate, signed by ``signed`` (options of openssl) or by itself."""
    made = [
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem"), *signed),
    ]
    subprocess.run(made, check=True, capture_output=True)


def certificates(folder: Path, *clients: str) -> dict[str, str]:
    """An authority, the broker's certificate and the clients'; gives the broker's properties."""
    certificate(folder, "authority")
    by_authority = ("-CA", str(folder / "authority.pem"), "-CAkey", str(folder / "authority.key"))
    certificate(folder, "broker", *by_authority, "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
    for name in clients:
        certificate(folder, name, *by_authority)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": _in_one_line(folder / "broker.key"),
        "ssl.keystore.certificate.chain": _in_one_line(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": _in_one_line(folder / "authority.pem"),
    }


def _in_one_line(file: Path) -> str:
    return file.read_text().strip().replace("\n", "\\n")
