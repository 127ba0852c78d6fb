"""What is shipped is what is tested: all wheels, in environments of their own, outside the checkout."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkback import __version__
from tests.packaging.environments import ROOT, Environment, interpreter_of
from tests.place import Place, wait_until

APPLICATION = Path(__file__).with_name("application.py")
TYPES = Path(__file__).with_name("api_types.py")
JOB_PACKAGES = {"access", "checkback_cli", "checkers", "conf", "state", "status_page", "streaming"}
LAB_PACKAGES = {"bench", "lab_cli", "torture"}
GATEWAY_PACKAGES = {"gateway"}


def top_level(wheel: Path) -> set[str]:
    return {name.split("/")[0] for name in packed(wheel)}


def test_an_application_gets_one_package_and_the_script(wheels: tuple[Path, ...]) -> None:
    assert top_level(wheels[0]) == {"checkback", "checkback_command.py"}
    assert "checkback/py.typed" in zipfile.ZipFile(wheels[0]).namelist()


def packed(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def committed(packages: set[str]) -> set[str]:
    listed = subprocess.run(["git", "ls-files", *packages], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


def test_the_job_and_the_lab_get_the_others_with_their_files(wheels: tuple[Path, ...]) -> None:
    assert packed(wheels[1]) - {"checkback_cli/LICENSE"} == committed(JOB_PACKAGES)
    assert packed(wheels[2]) - {"torture/LICENSE"} == committed(LAB_PACKAGES)
    assert packed(wheels[3]) - {"gateway/LICENSE"} == committed(GATEWAY_PACKAGES)


def project(name: str) -> dict[str, Any]:
    text = (ROOT / "deploy" / name / "pyproject.toml").read_text(encoding="utf-8")
    return dict(tomllib.loads(text)["project"])


def test_all_have_one_version(wheels: tuple[Path, ...]) -> None:
    assert {wheel.name.split("-")[1] for wheel in wheels} == {__version__}
    job, lab, gateway = project("job"), project("lab"), project("gateway")
    of_checkback = [
        requirement
        for requirement in [
            *job["dependencies"],
            *job["optional-dependencies"]["java"],
            *lab["dependencies"],
            *gateway["dependencies"],
        ]
        if requirement.startswith("checkback")
    ]
    assert {requirement.partition("==")[2] for requirement in of_checkback} == {__version__}


def test_links_of_the_description_lead_somewhere_from_anywhere(wheels: tuple[Path, ...]) -> None:
    with zipfile.ZipFile(wheels[0]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        description = wheel.read(name).decode()
    links = re.findall(r"\]\(([^)]+)\)", description)
    assert links
    assert [link for link in links if not link.startswith("https://")] == []


def test_without_the_job_the_command_says_what_to_install(application: Environment) -> None:
    done = application.run(application.command, "run")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip().endswith("pip install 'checkback-job', or in a clone: pip install . './deploy/job'")
    done = application.run(application.command, "--version")
    assert (done.returncode, done.stdout) == (0, f"checkback {__version__}\n")


def classified() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [line.rpartition(" :: ")[2] for line in project["classifiers"] if " :: Python :: 3." in line]
    return [version for version in versions if version != f"3.{sys.version_info.minor}"]


@pytest.mark.parametrize("version", classified())
def test_an_application_runs_on_other_pythons(version: str, wheels: tuple[Path, ...], tmp_path: Path) -> None:
    interpreter = interpreter_of(version)
    if interpreter is None:
        pytest.skip(f"this machine has no Python {version}")
    other = Environment.make(tmp_path, wheels[0], interpreter=interpreter)
    program = (
        "from checkback import *; from checkback.testing import RecordingTransport\n"
        "recording = RecordingTransport()\n"
        "with TransactionProducer('nowhere:1', 'shop', transport=recording) as producer:\n"
        "    with producer.transaction(Message('orders', b'1')): pass\n"
        "print(recording.committed[0].value)"
    )
    done = other.run(other.python, "-W", "error::SyntaxWarning", "-c", program)
    assert (done.stdout, done.returncode) == ("b'1'\n", 0), done.stderr


def test_a_wheel_is_installed_with_extras_as_the_page_shows(wheels: tuple[Path, ...]) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    [command] = re.findall(r'`pip (install "\$\(echo dist/[^`]*)`', readme)
    command = command.replace("dist/", f"{wheels[0].parent}/")
    tried = f"{sys.executable} -m pip {command} --dry-run --no-deps --no-index --ignore-installed"
    done = subprocess.run(tried, shell=True, capture_output=True, text=True, check=False)  # noqa: S602  (as it is typed)
    assert done.returncode == 0, done.stderr
    assert "Would install checkback-" in done.stdout
    assert "does not provide the extra" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "checker", [("mypy", "--strict", "--python-executable"), ("pyright", "--pythonpath")], ids=["mypy", "pyright"]
)
def test_applications_are_type_checked(application: Environment, checker: tuple[str, ...]) -> None:
    """Outside the checkout: against what is installed."""
    files = [shutil.copy(file, application.folder) for file in (APPLICATION, TYPES)]
    command = [sys.executable, "-m", *checker, application.python, *map(str, files)]
    done = subprocess.run(
        command, cwd=application.folder, env=application.variables(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_job_has_all_that_it_needs(job: Environment) -> None:
    done = job.run(job.python, "-m", "pip", "check")
    assert done.returncode == 0, done.stdout
    done = job.run(job.python, "-c", "import streaming, checkback; print(streaming.__file__, checkback.__file__)")
    assert all(str(job.folder) in file for file in done.stdout.split())


@pytest.mark.parametrize("command", [("bench", "throughput"), ("torture",)])
def test_without_the_lab_its_commands_say_what_to_install(job: Environment, command: tuple[str, ...]) -> None:
    done = job.run(job.command, *command)
    said = f"checkback {command[0]} is not in this installation: pip install checkback-lab\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    assert job.run(job.command, command[0], "--help").returncode == 0


def test_the_lab_has_all_that_it_needs(lab: Environment) -> None:
    done = lab.run(lab.python, "-m", "pip", "check")
    assert done.returncode == 0, done.stdout
    modules = (name.removesuffix(".py").replace("/", ".") for name in committed(LAB_PACKAGES) if name.endswith(".py"))
    names = sorted(name.removesuffix(".__init__") for name in modules)
    program = f"import importlib\nfor name in {names}: print(importlib.import_module(name).__file__)"
    done = lab.run(lab.python, "-c", program)
    assert (done.returncode, len(done.stdout.split())) == (0, len(names)), done.stderr
    assert all(file.startswith(str(lab.folder)) for file in done.stdout.split())
    assert lab.run(lab.command, "bench", "throughput", "--help").returncode == 0


def test_the_demo_runs(job: Environment) -> None:
    done = job.run(job.command, "demo", "--orders", "200", seconds=480)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def running_job(job: Environment, place: Place) -> Iterator["subprocess.Popen[bytes]"]:
    variables = job.variables(
        CHECKBACK_KAFKA__BOOTSTRAP_SERVERS=place.bootstrap_servers,
        CHECKBACK_KAFKA__TOPIC_PREFIX=place.topics.prefix,
        CHECKBACK_JOB__CHECKPOINT=str(job.folder / "checkpoint"),
        CHECKBACK_JOB__STATE_PARTITIONS="2",
        CHECKBACK_JOB__DRIVER_MEMORY="1g",
    )
    process = subprocess.Popen(
        [job.command, "run"], cwd=job.folder, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    yield process
    process.terminate()
    process.wait(60)


def test_a_message_of_the_application_is_delivered_by_the_job(
    place: Place, application: Environment, running_job: "subprocess.Popen[bytes]"
) -> None:
    arguments = (place.bootstrap_servers, place.topics.prefix, place.real_topic)
    done = application.run(application.python, str(APPLICATION), *arguments)
    assert done.returncode == 0, done.stderr
    transaction_id = done.stdout.strip()

    def delivered() -> list[str]:
        return [dict(record.headers)["cb-id"].decode() for record in place.read(place.real_topic)]

    wait_until(lambda: delivered() == [transaction_id] or running_job.poll() is not None)
    assert delivered() == [transaction_id]
