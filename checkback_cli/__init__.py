"""The command line: one module for each command."""

from checkback_cli.app import app, run

__all__ = ["app", "run"]
