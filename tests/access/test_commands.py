"""Rights that are granted, checked and printed by commands, on a Kafka with its authorizer on."""

from typer.testing import CliRunner

from checkback_cli import app
from tests.access.guarded import ORDERS, TOPICS, Guarded, guarded
from tests.place import wait_until

__all__ = ["guarded"]


def test_a_right_is_granted_checked_and_printed_by_commands(guarded: Guarded) -> None:
    server = ("-b", guarded.kafka.bootstrap_servers)
    who = ("producer", "-p", "User:till", "-g", "till", "-t", ORDERS)

    def said(*words: str) -> tuple[int, list[str]]:
        found = CliRunner().invoke(app, ["access", *words, *server], catch_exceptions=False)
        return found.exit_code, found.output.splitlines()

    status, lines = said("check", *who)
    assert (status, lines[0].partition(":")[0]) == (1, "lacks     Write on the topic cb.half")
    assert said("grant", *who)[1][0] == "granted  Write on topic cb.half"
    wait_until(lambda: said("check", *who) == (0, ["User:till has exactly what a producer needs."]))
    assert said("grant", *who)[1][0] == "is there  Write on topic cb.half"
    assert "too much  Write on topic cb.producers" in said("check", "reader", "-p", "User:till")[1]
    printed = [line.partition(" --operation ")[2] for line in said("print", *who)[1]]
    assert printed[:2] == ["Describe --group checkback-limit:till", f"Write --topic {TOPICS.half}"]
