"""``python -m tests.kafka_archive FILE``: the classes of Kafka, prepared once for all brokers of a test run.

With such an archive a broker starts with half the CPU. See JEP 350.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from checkback.local import LocalKafka
from checkback.local.jars import kafka_jars
from checkback.local.java import java_command


def make(archive: Path) -> None:
    """Run a broker that writes its classes to ``archive`` when it ends."""
    draft = archive.with_suffix(".draft")
    draft.unlink(missing_ok=True)  # Java does not replace a file
    with TemporaryDirectory() as folder:
        with LocalKafka(Path(folder)):
            pass
        class_path = os.pathsep.join(map(str, kafka_jars()))
        # not by LocalKafka: it kills a broker that takes long to end
        command = [str(java_command()), f"-XX:ArchiveClassesAtExit={draft}", "-cp", class_path, "kafka.Kafka"]
        with subprocess.Popen(
            [*command, f"{folder}/server.properties"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as broker:
            assert broker.stdout is not None
            for line in broker.stdout:
                if "Kafka Server started" in line:
                    broker.terminate()
    draft.replace(archive)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
