"""Folders as the driver sees them: on this machine, or wherever Hadoop can reach.

Nothing here ever shows half of anything under a final name: what is written is written elsewhere and renamed, and
what is deleted is renamed away first. In an object store, where nothing can be renamed, a file has its name when all of
it was sent.
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

from pyspark.sql import SparkSession

from checkback.exceptions import CheckbackError, ConfigurationError, DestinationError
from streaming.batch.java_errors import CAUSE, first_line
from streaming.batch.stores import in_store, send

MARK = "_checkback_table"
_LASTING = (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError)
_LASTING_IN_JAVA = re.compile(
    r"AccessControl|AccessDenied|ClassNotFound|FileAlreadyExists|FileNotFound|IllegalArgument|InvalidPath"
    r"|NotDirectory|UnknownStore|UnsupportedFileSystem"
)
"""Exceptions that no waiting cures; a name node in safe mode, a store that is away, or a name server comes back."""


class Folder(Protocol):
    """A folder; names in it may have slashes.

    Every method raises OSError, or what py4j makes of Java's.
    """

    uri: str
    """Absolute, as both Hadoop and :func:`streaming.tables.staging.file_system_of` understand it."""
    store: str
    """What Arrow needs to reach its store, as the query of a URI; empty: nothing."""

    def children(self, name: str = "") -> list[str]:
        """Names in a folder, sorted; none when there is no such folder."""

    def exists(self, name: str) -> bool:
        """Whether a file or a folder has this name."""

    def read(self, name: str) -> bytes:
        """A file's content."""

    def write(self, name: str, content: bytes) -> None:
        """Make a file, or replace it, in one step."""

    def make(self, name: str) -> None:
        """Make a folder, and those above it."""

    def put(self, source: str, target: str) -> bool:
        """Rename a file or a folder in one step; False when the target is there already, which stays as it is."""

    def settle(self, names: Iterable[str]) -> None:
        """Return when the files that are there would survive a loss of power; at once where closed files always do."""

    def remove(self, name: str) -> None:
        """Delete a file, or a folder with all in it; harmless when it is not there."""


def folder_at(spark: SparkSession, path: str) -> Folder:
    """The folder of a path or URL that Hadoop understands."""
    jvm: Any = spark.sparkContext._jvm
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    named = jvm.org.apache.hadoop.fs.Path(path)
    qualified = named.getFileSystem(configuration).makeQualified(named).toString()
    if qualified.startswith("file:"):
        return LocalFolder(Path("/" + qualified.removeprefix("file:").lstrip("/")))
    return HadoopFolder(spark, qualified)


def path_of_state(spark: SparkSession, path: str) -> str:
    """A name of a folder that Spark's state readers take literally.

    They escape what a URL escapes, such as blanks, and look for a folder of the escaped name. Such a folder gets a
    second name, by a mount table that the session hands to every task.
    """
    jvm: Any = spark.sparkContext._jvm
    named = jvm.org.apache.hadoop.fs.Path(path)
    uri = named.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).makeQualified(named).toUri()
    if uri.getRawPath() == uri.getPath():
        return path
    table = f"checkback-{hashlib.sha256(uri.toString().encode()).hexdigest()[:16]}"  # Hadoop keeps them by name
    spark.conf.set(f"fs.viewfs.mounttable.{table}.link./checkpoint", uri.toString())
    return f"viewfs://{table}/checkpoint"


def to_disk(path: str | Path) -> None:
    """Return when a file's content would survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _entries_to_disk(folder: Path) -> None:
    """As :func:`to_disk`, of a folder's entries. Some file systems cannot do that, and some folders may not be read."""
    try:
        to_disk(folder)
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOENT, errno.ENOTSUP, errno.EPERM}:
            raise


@contextmanager
def opening(destination: str, uri: str) -> Iterator[None]:
    """Names the destination in errors of its folder.

    Raises:
        ConfigurationError: it cannot be made or read, and waiting does not help.
        DestinationError: its store does not answer, or not now.
    """
    try:
        yield
    except CheckbackError:
        raise
    except Exception as error:  # Java's exceptions come as py4j's
        problem = first_line(error)
        in_java = _LASTING_IN_JAVA.search(problem.partition(CAUSE)[0]) and "UnknownHostException" not in problem
        lasting = isinstance(error, _LASTING) or in_java
        raise (ConfigurationError if lasting else DestinationError)(
            f"sinks.tables.{destination}: the folder {uri} cannot be made or read: {problem}."
        ) from error


def open_folder(destination: str, root: Folder) -> list[str]:
    """Make a destination's folder, and give the names in it; raises what :func:`opening` does."""
    with opening(destination, root.uri):
        root.make("")
        return root.children()


def refuse_deleted(root: Folder) -> None:
    """Raise FileNotFoundError if a destination's folder has lost :data:`MARK`, which the start writes into it."""
    if not root.exists(MARK):
        raise FileNotFoundError(f"{root.uri} was deleted while the job ran. Restore it, or a start makes an empty one")


class LocalFolder:
    """On this machine, or on what it has mounted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.uri = f"file:{path}"
        self.store = ""

    def children(self, name: str = "") -> list[str]:
        """See :class:`Folder`."""
        try:
            return sorted(child.name for child in (self._path / name).iterdir())
        except FileNotFoundError:
            return []

    def exists(self, name: str) -> bool:
        """See :class:`Folder`."""
        return (self._path / name).exists()

    def read(self, name: str) -> bytes:
        """See :class:`Folder`."""
        return (self._path / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """See :class:`Folder`."""
        target = self._path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # what rests on it may outlive a power cut
        new.replace(target)
        _entries_to_disk(target.parent)

    def make(self, name: str) -> None:
        """See :class:`Folder`."""
        (self._path / name).mkdir(parents=True, exist_ok=True)

    def put(self, source: str, target: str) -> bool:
        """See :class:`Folder`; of two that rename at once, the kernel lets one through."""
        try:
            # never over a file; a folder that holds something is refused by rename itself
            os.rename(self._path / source, self._path / target)  # noqa: PTH104  (named as in the manual: rename(2))
        except OSError as error:
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                return False
            raise
        _entries_to_disk((self._path / target).parent)
        return True

    def settle(self, names: Iterable[str]) -> None:
        """See :class:`Folder`; their folders' entries, too."""
        folders = {self._path, self._path.parent}
        for name in names:
            file = self._path / name
            folders.update(parent for parent in file.parents if parent.is_relative_to(self._path))
            with contextlib.suppress(FileNotFoundError):
                to_disk(file)
        for folder in folders:
            _entries_to_disk(folder)

    def remove(self, name: str) -> None:
        """See :class:`Folder`."""
        gone = self._path / _removed(name)
        with contextlib.suppress(FileNotFoundError):
            (self._path / name).rename(gone)
            if gone.is_dir():
                shutil.rmtree(gone)
            else:
                gone.unlink()


class HadoopFolder:
    """Anywhere else, by Hadoop.

    Renames are those of ``FileContext``, which never replace a folder and never move one into another, as those of
    ``FileSystem`` do.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._gateway: Any = spark.sparkContext._gateway  # noqa: SLF001  (as above)
        self._configuration = spark.sparkContext._jsc.hadoopConfiguration()
        self.uri = uri.rstrip("/")
        self.store = _store_of(self._configuration) if in_store(uri) else ""
        self._files = self._at("").getFileSystem(self._configuration)

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.uri}/{name}" if name else self.uri)

    def exists(self, name: str) -> bool:
        """See :class:`Folder`."""
        return bool(self._files.exists(self._at(name)))

    def _rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        # made when it is needed: a file system may have no binding for it, and be good enough for a checkpoint
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._at("").toUri(), self._configuration)
        rename = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        options = self._gateway.new_array(rename, int(overwrite))
        if overwrite:
            options[0] = rename.OVERWRITE
        context.rename(self._at(source), self._at(target), options)

    def children(self, name: str = "") -> list[str]:
        """See :class:`Folder`."""
        if not self.exists(name):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(self._at(name)))

    def read(self, name: str) -> bytes:
        """See :class:`Folder`."""
        stream = self._files.open(self._at(name))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, name: str, content: bytes) -> None:
        """See :class:`Folder`."""
        if in_store(self.uri):
            send(self._files, self._at(name), content)
            return
        new = f"{name}.{uuid.uuid4().hex}"
        stream = self._files.create(self._at(new))
        try:
            stream.write(content)
        finally:
            stream.close()
        self._rename(new, name, overwrite=True)

    def make(self, name: str) -> None:
        """See :class:`Folder`."""
        self._files.mkdirs(self._at(name))

    def put(self, source: str, target: str) -> bool:
        """See :class:`Folder`."""
        if self.exists(target):
            return False
        try:
            self._rename(source, target)
        except Exception:
            if self.exists(target) and self.exists(source):
                return False
            raise
        return True

    def settle(self, names: Iterable[str]) -> None:
        """See :class:`Folder`: a store, and HDFS with more than one replica, loses no closed file."""

    def remove(self, name: str) -> None:
        """See :class:`Folder`."""
        if in_store(self.uri):
            self._files.delete(self._at(name), True)  # noqa: FBT003  (as below)
        elif self.exists(name):
            gone = _removed(name)
            self._rename(name, gone)
            self._files.delete(self._at(gone), True)  # noqa: FBT003  (Java: and all in it)


def _store_of(configuration: Any) -> str:
    """The store that Hadoop's configuration names, for Arrow; keys come from the environment of each process."""
    scheme, _, host = (configuration.get("fs.s3a.endpoint") or "").rpartition("://")
    scheme = scheme or ("https" if configuration.getBoolean("fs.s3a.connection.ssl.enabled", True) else "http")  # noqa: FBT003  (Java)
    named = {"endpoint_override": host, "scheme": scheme} if host else {}
    region = configuration.get("fs.s3a.endpoint.region")
    return f"?{urlencode({**named, **({'region': region} if region else {})})}"


def _removed(name: str) -> str:
    """What a folder is called while it is being deleted; it stays where it was, so that the next start finds it."""
    return f"{name}.{uuid.uuid4().hex}"
