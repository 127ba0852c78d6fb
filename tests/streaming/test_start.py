"""What keeps a job from starting is said before Spark starts, and soon."""

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from checkback.exceptions import CheckbackError, ConfigurationError, JobStoppedError
from conf import Settings
from streaming import TransactionJob
from streaming import job as module
from tests.place import Place


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Settings) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(module, "build_session", never)


def refused(settings: Settings, kind: type[CheckbackError]) -> str:
    with pytest.raises(kind) as error:
        TransactionJob(settings).start()
    return str(error.value)


def test_a_checkpoint_that_is_a_file(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refused(place.settings(job=_job(place, checkpoint=str(tmp_path / "file" / "inside"))), JobStoppedError)
    assert said.endswith("file is not a folder. Name another one in job.checkpoint.")


def test_tls_files_that_are_not_there(place: Place) -> None:
    assert "checks.tls_ca" in refused(place.settings(checks={"tls_ca": "no/such.pem"}), ConfigurationError)


def test_topics_that_are_not_there(place: Place) -> None:
    settings = place.settings(kafka={"bootstrap_servers": place.bootstrap_servers, "topic_prefix": "nowhere."})
    assert "run 'checkback topics create' first" in refused(settings, ConfigurationError)


@pytest.mark.parametrize("listens", [False, True])
def test_a_kafka_that_does_not_answer_is_said_within_ten_seconds(place: Place, *, listens: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        if not listens:
            mute.close()
        began = time.monotonic()
        settings = place.settings(kafka={"bootstrap_servers": f"127.0.0.1:{port}"})
        said = refused(settings, ConfigurationError)
    assert time.monotonic() - began < 10
    assert f"No Kafka answers at 127.0.0.1:{port}" in said
    assert ("Somebody listens there" in said) == listens


def _job(place: Place, **changed: Any) -> dict[str, Any]:
    return {**place.settings().job.model_dump(mode="json"), **changed}
