"""Settings as they may be shown: without what is a secret in options that are Kafka's, Spark's or a driver's own."""

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "**********"
"""As pydantic shows a ``SecretStr``."""

# Of options whose names are not ours; rather one too many than one too few. A key's file is not a secret, its text is.
_SECRET_OPTION = re.compile(
    r"passw|passphrase|passcode|pwd|secret|token|credential|jaas|oauthbearer[._]config|connection[._-]?string"
    r"|(^|[._-])(pw|pass|pin|sas|auth|bearer|authorization|signature)([._-](?!file|location)|$)"
    r"|private[._-]?key(?!.*(file|location))"
    r"|(access|account|api|shared|ssl|keystore)[._-]?key([._-]?(pem|value))?$"
    r"|account[._]key[._]",
    re.IGNORECASE,
)
_IN_AUTHORITY = re.compile(r"(?<=://)([^/?#@\s:]*):[^/?#\s]*@")  # to the last @ : passwords may have one
_BEFORE_HOST = re.compile(r"(^|[\s,])([^/?#@\s:,]*):[^/?#\s,]*@")  # likewise where nobody has written the scheme
_ASSIGNED = re.compile(
    r"((?:passw|passphrase|pwd|secret|token|credential)[\w.-]*\s*[=:]\s*)"
    r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s;,&\"']+)",
    re.IGNORECASE,
)
"""In a text of several options: those of a Java process, a login module's, a connection's."""
_IN_QUERY = re.compile(r"([?&;]([^=&;?\s]*)=)([^&;\s]*)")


def redacted(value: Any, name: str = "") -> Any:
    """A setting's value without secrets; ``name`` is what it, or the option in it, is called."""
    if isinstance(value, Mapping):
        return {key: redacted(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [redacted(inner, name) for inner in value]
    if _SECRET_OPTION.search(name) and value != "":
        return HIDDEN
    return _without_password(value) if isinstance(value, str) else value


def _without_password(text: str) -> str:
    def query(found: re.Match[str]) -> str:
        return found[1] + (HIDDEN if _SECRET_OPTION.search(found[2]) else found[3])

    text = _IN_AUTHORITY.sub(rf"\1:{HIDDEN}@", text)
    text = _BEFORE_HOST.sub(rf"\1\2:{HIDDEN}@", text)
    text = _ASSIGNED.sub(rf"\1{HIDDEN}", text)
    return _IN_QUERY.sub(query, text) if "://" in text else text
