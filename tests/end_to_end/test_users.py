"""The job runs under any user that has a folder to write to."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

from checkback import Message, TransactionProducer
from tests.end_to_end.job_process import Job
from tests.place import Place, wait_until

_UID = "12345"
"""Without a line in /etc/passwd."""


# A checkout, or a cache of jars, may lie in folders that only their owner reads: this capability reads them.
_READ_ALL = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another user needs root")
def test_a_user_without_a_name_and_without_a_home(place: Place) -> None:
    with tempfile.TemporaryDirectory() as own:
        os.chown(own, int(_UID), int(_UID))
        keep = {name: value for name, value in os.environ.items() if name in {"PATH", "PYTHONPATH"}}
        job = Job(
            place,
            {
                "JGO_CACHE_DIR": str(Path.home() / ".cache" / "jgo"),
                "TMPDIR": own,
                "CHECKBACK_JOB__CHECKPOINT": f"{own}/checkpoint",
            },
        )
        job.environment = {name: value for name, value in job.environment.items() if name.startswith(("C", "J", "T"))}
        command = ["setpriv", "--reuid", _UID, "--regid", _UID, "--clear-groups", *_READ_ALL, "env", "-i"]
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
