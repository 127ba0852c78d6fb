"""The file of ``access.secrets``, and the key with which a program of ours signs what it writes."""

import logging
import stat
from pathlib import Path

from checkback.exceptions import ConfigurationError
from checkback.wire.signed_records import SigningKey
from conf.explaining import loaded
from conf.settings import AccessSettings

_LOGGER = logging.getLogger(__name__)
_OTHERS = stat.S_IRWXO


class UnreadableFileError(ConfigurationError):
    """A file cannot be read now; that may pass without a change of it."""


def read_keys(name: str) -> dict[str, SigningKey]:
    """The keys of a file; none where there is none to be.

    Raises:
        ConfigurationError: the file cannot be read, or is not one of secrets.
    """
    if not name:
        return {}
    path = Path(name)
    try:
        if path.stat().st_mode & _OTHERS:
            _LOGGER.warning("access.secrets: everybody on this machine may open %s: chmod o-rwx.", path)
        return keys_of(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableFileError(f"access.secrets: cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"access.secrets: {path} is not UTF-8.") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"access.secrets: {path}: {error}") from None


def own_key(access: AccessSettings) -> SigningKey | None:
    """The key of ``access.key``; None where nothing is to be signed.

    Raises:
        ConfigurationError: its secret cannot be had.
    """
    if not access.key:
        return None
    found = read_keys(access.secrets).get(access.key)
    if found is None:
        raise ConfigurationError(f"access.key names {access.key}, of which access.secrets has no secret.")
    return found


def keys_of(text: str) -> dict[str, SigningKey]:
    """The keys of a file with lines ``id = "secret"``.

    Raises:
        ConfigurationError: it is not TOML, or a secret is not one. No message shows a secret.
    """
    found = loaded(text)
    wrong = next((name for name, secret in found.items() if not isinstance(secret, str)), None)
    if wrong is not None:
        raise ConfigurationError(f'{wrong}: write id = "secret"; an id with a full stop needs quotes.')
    return {key_id: SigningKey(key_id, secret) for key_id, secret in found.items()}
