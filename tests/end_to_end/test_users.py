"""The job runs under any user that has a folder to write to."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkback import Message, TransactionProducer
from tests.end_to_end.job_process import Job
from tests.place import Place, wait_until

_UID = "12345"
"""Without a line in /etc/passwd."""


@pytest.fixture
def jars() -> Iterator[Path]:
    """Those of this user, for any other."""
    if os.getuid():
        pytest.skip("becoming another user needs root")
    with tempfile.TemporaryDirectory() as made:
        shutil.copytree(Path.home() / ".cache" / "jgo", Path(made) / "jgo", copy_function=_link)
        Path(made).chmod(0o755)
        yield Path(made) / "jgo"


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copy2(source, target)


def test_a_user_without_a_name_and_without_a_home(place: Place, jars: Path) -> None:
    with tempfile.TemporaryDirectory() as own:
        os.chown(own, int(_UID), int(_UID))
        keep = {name: value for name, value in os.environ.items() if name in {"PATH", "PYTHONPATH"}}
        job = Job(place, {"JGO_CACHE_DIR": str(jars), "TMPDIR": own, "CHECKBACK_JOB__CHECKPOINT": f"{own}/checkpoint"})
        job.environment = {name: value for name, value in job.environment.items() if name.startswith(("C", "J", "T"))}
        job.environment.pop("JDK_JAVA_OPTIONS", None)
        command = ["setpriv", "--reuid", _UID, "--regid", _UID, "--clear-groups", "env", "-i"]
        command += [f"{name}={value}" for name, value in (job.environment | keep).items()]
        job.start([*command, sys.executable], own)
        with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
            producer.send(Message(place.real_topic, b"value"))
        try:
            wait_until(lambda: not job.process.is_running() or bool(place.read(place.real_topic)), "a delivery")
            assert job.terminate() == 0, job.said()
        finally:
            job.kill()
        assert [record.value for record in place.read(place.real_topic)] == [b"value"]
        assert not (Path(own) / "?").exists(), "no folder named as Java calls a home that it does not know"
