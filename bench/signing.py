"""A policy under which a backlog has to be signed: what that costs the job."""

import time
from pathlib import Path

from bench.workload import GROUP
from checkback.wire.protocol import Headers
from checkback.wire.signed_records import SigningKey, place_of, signature_header

_SECRET = "not secret: of a measurement, whose broker ends with it"  # noqa: S105  (the name says so)
_POLICY = f"""
[accounts.bench]
groups = ["{GROUP}"]
other_topics = "allow"
keys = ["bench"]
[accounts.job]
keys = ["job"]
roles = ["job", "checks"]
"""


class SignedBacklog:
    """The policy's files in a folder, and the signatures that it wants."""

    def __init__(self, folder: Path) -> None:
        self._key = SigningKey("bench", _SECRET)
        policy, secrets = folder / "access.toml", folder / "secrets.toml"
        policy.write_text(_POLICY, encoding="utf-8")
        secrets.write_text(f'bench = "{_SECRET}"\njob = "{_SECRET}"\n', encoding="utf-8")
        secrets.chmod(0o600)
        self.settings = {
            "ACCESS__POLICY": str(policy),
            "ACCESS__SECRETS": str(secrets),
            "ACCESS__KEY": "job",
        }
        """Of the job, as environment without its prefix."""

    def sign(
        self, topic: str, partition: int, content: tuple[bytes | None, bytes | None], headers: Headers
    ) -> list[tuple[str, bytes]]:
        """The headers of a record with this key and value, and its signature."""
        now_ms = time.time_ns() // 1_000_000
        return [*headers, signature_header(self._key, place_of(topic, partition), now_ms, content, headers)]
