""".github/workflows: what the schema of such files and a linter say of them, without a network."""

import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.rest import LAB, REST

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
PROGRAMS = Path(sys.executable).parent


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_is_one() -> None:
    run(str(PROGRAMS / "check-jsonschema"), "--builtin-schema", "vendor.github-workflows", str(WORKFLOW))


def test_the_linter_has_nothing_to_say() -> None:
    config = str(ROOT / ".github" / "zizmor.yml")
    run(str(PROGRAMS / "zizmor"), "--offline", "--no-progress", "--config", config, str(WORKFLOW))


def test_the_wheels_are_tried_on_each_python_that_they_name() -> None:
    jobs = YAML(typ="safe").load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [line.rpartition(" :: ")[2] for line in project["classifiers"] if " :: Python :: 3." in line]
    assert jobs["installed"]["strategy"]["matrix"]["python"] == named


@pytest.mark.parametrize("pattern", [*REST, *LAB])
def test_rest_and_lab_name_tests_that_exist(pattern: str) -> None:
    path, _, name = pattern.partition("::")
    files = [file for file in (ROOT / "tests").rglob("test_*.py") if fnmatch(str(file.relative_to(ROOT)), f"{path}*")]
    if name:
        assert any(f"def {name.partition('*')[0]}" in file.read_text(encoding="utf-8") for file in files)
    elif "[" not in path and path.endswith((".py*", "/*")):
        assert files
