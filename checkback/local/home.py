"""The user's home folder: where jars, a script and archives of classes are kept. Users of containers may have none."""

import os
import tempfile
from pathlib import Path


def home() -> Path:
    """The home folder of this process and of those that it starts.

    It is ``HOME``, or else what ``/etc/passwd`` names, if it can be written to or has a cache that an image brings.
    A user without either gets a folder of its own among the temporary ones, as ``HOME``.

    Raises:
        OSError: there is no folder for temporary files that this user may write to.
    """
    try:
        found = Path.home()
        if os.access(found, os.W_OK | os.X_OK) or (found / ".cache").is_dir():
            return found
    except (OSError, RuntimeError):  # no name for this uid, or a folder of somebody else's
        pass
    own = Path(tempfile.gettempdir()) / f"checkback-home-{os.getuid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    if own.is_symlink() or own.stat().st_uid != os.getuid():  # others write to that folder, too
        own = Path(tempfile.mkdtemp(prefix="checkback-home-"))
    os.environ["HOME"] = str(own)
    return own


def cache_folder() -> Path:
    """Where what can be made again is kept: in ``XDG_CACHE_HOME``, or in the home folder's ``.cache``.

    Raises:
        OSError: as :func:`home`.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "checkback"
