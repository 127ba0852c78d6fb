"""Runs commands, and reads what they print."""

import json
from typing import Any

from typer.testing import CliRunner, Result

from checkback.exceptions import CheckbackError
from checkback_cli import app


def invoke(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=given)


def objects(*arguments: str, code: int = 0) -> list[dict[str, Any]]:
    done = invoke(*arguments, "--json")
    assert done.exit_code == code, (done.output, done.exception)
    return [json.loads(line) for line in done.stdout.splitlines()]


def lines(*arguments: str) -> list[list[str]]:
    done = invoke(*arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return [line.split("\t") for line in done.stdout.splitlines()]


def refusal(*arguments: str) -> str:
    error = invoke(*arguments).exception
    assert isinstance(error, CheckbackError), error
    return str(error)
