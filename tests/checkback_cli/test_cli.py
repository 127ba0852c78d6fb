"""The command line: its help, its settings, its topics and its errors."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import typer
from kafka import KafkaAdminClient
from kafka.errors import KafkaError, KafkaTimeoutError, TopicAuthorizationFailedError
from typer.testing import CliRunner, Result

from checkback.exceptions import (
    CheckbackError,
    CheckpointMismatchError,
    ConfigurationError,
    HalfMessageTimeoutError,
    JobFailedError,
)
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import Topics
from checkback.wire.signed_records import SigningKey
from checkback_cli import app, run
from tests.listening import addresses
from tests.place import Place

ROOT = Path(__file__).parents[2]
NARROW_ASCII = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "60"}
COMMANDS: dict[tuple[str, ...], str] = {
    (): "a message appears if, and only if",
    ("demo",): "A shop sends orders",
    ("run",): "Run the job",
    ("checks",): "Run a check service alone",
    ("gateway",): "Run a gateway for RocketMQ's own clients",
    ("grow",): "Give the checkpoint more state partitions",
    ("torture",): "Break the running system",
    ("access",): "Who may do what",
    ("access", "print"): "Print kafka-acls.sh lines",
    ("access", "grant"): "Give a role what it needs",
    ("access", "check"): "Say what a principal lacks",
    ("access", "policy"): "Say what a policy file comes to",
    ("access", "key"): "Make a key: print a line",
    ("access", "token"): "Print the bearer token of a key",
    ("access", "signers"): "Say which keys each producer group's",
    ("topics",): "Checkback's own topics, and yours",
    ("topics", "create"): "Create the topics that are missing",
    ("topics", "list"): "List Checkback's own topics",
    ("status",): "Say how the job stands",
    ("doctor",): "Look whether everything is as a job needs it",
    ("open",): "List transactions in doubt",
    ("show",): "Tell a transaction's whole story",
    ("commit",): "Deliver transactions that are in doubt or parked",
    ("rollback",): "Never deliver transactions that are in doubt or parked",
    ("resume",): "Have parked transactions checked again",
    ("redeliver",): "Deliver what was committed and its topic did not take",
    ("groups",): "List producer groups and consumer groups",
    ("dlq",): "Dead letters of consumer groups",
    ("dlq", "list"): "List a group's dead letters",
    ("dlq", "show"): "Show all of one dead letter",
    ("dlq", "resend"): "Give dead letters back to their group",
    ("tail",): "Print what happens from now on",
    ("offsets",): "set it back or forward",
    ("offsets", "show"): "how far behind, and who",
    ("offsets", "reset"): "Have a group go on elsewhere, while it runs",
    ("parked",): "Messages that were given up on",
    ("parked", "list"): "List the messages that wait for an operator",
    ("send",): "Send messages without a local transaction",
    ("read",): "Print the messages of a topic",
    ("audit",): "List who has decided what by hand",
    ("rejected",): "List the half messages and ops",
    ("config",): "Print every setting",
    ("kafka",): "Start a real Kafka",
    ("bench",): "Measurements",
    ("bench", "throughput"): "Transactions per second",
    ("bench", "backlog"): "Memory and time that the job takes",
    ("bench", "producer"): "Half message and op from one process",
    ("bench", "capacity"): "What a load needs",
    ("bench", "gateway"): "Transactions per second through a gateway",
    ("bench", "consume"): "Messages per second of a push consumer",
    ("bench", "latency"): "Time from an op's sending",
    ("bench", "guard"): "Compare the CPU time",
    ("bench", "checks"): "Checks per second",
    ("bench", "recover"): "Time from the job's start",
    ("bench", "neighbours"): "What groups that hang",
    ("bench", "open"): "Time of a batch",
    ("bench", "soak"): "Whether anything grows",
    ("bench", "workers"): "Transactions per second on Spark",
    ("bench", "end-to-end"): "Transactions per second from the senders",
    ("bench", "dead-lanes"): "Time until all is settled",
    ("bench", "due-together"): "Time until transactions are delivered",
    ("bench", "outage"): "The worst day of the producers",
}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.upper().startswith("CHECKBACK_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("COLUMNS", "160")


@pytest.mark.parametrize(
    "arguments", [("config",), ("--help",), ("open", "--group", "k\u00f6nig", "-b", "localhost:1")]
)
def test_a_terminal_that_is_not_utf_8_gets_each_command_whole(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "checkback", *arguments]
    done = subprocess.run(command, env=NARROW_ASCII, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == (75 if "-b" in arguments else 0), done.stderr


def test_checks_without_kafka_says_so_in_one_sentence(tmp_path: Path) -> None:
    config = tmp_path / "checkback.toml"
    config.write_text(
        '[kafka]\nbootstrap_servers = "127.0.0.1:1"\n[kafka.client_options]\nbootstrap_timeout_ms = 500\n',
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "checkback", "checks", "--config", str(config)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 75
    [said] = ended.stderr.splitlines()
    line = json.loads(said)
    assert (line["level"], line["time"][-1]) == ("error", "Z")
    assert line["message"].startswith(
        "KafkaUnreachableError: No Kafka answers at 127.0.0.1:1 (kafka.bootstrap_servers)"
    )


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def commands(group: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


def test_the_commands_are_these() -> None:
    assert set(commands(typer.main.get_command(app))) == set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_says_what_it_does(path: tuple[str, ...]) -> None:
    said = invoke(*path, "--help")
    assert said.exit_code == 0
    assert COMMANDS[path] in said.output


def test_help_has_a_short_name_too() -> None:
    assert invoke("topics", "create", "-h").output == invoke("topics", "create", "--help").output


@pytest.mark.parametrize("path", [path for path in COMMANDS if path], ids=" ".join)
def test_every_option_says_what_it_is_for(path: tuple[str, ...]) -> None:
    command: object = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]  # groups have them
    mute = [option.name for option in command.params if not getattr(option, "help", None)]  # type: ignore[attr-defined]  # on purpose, for this test
    assert mute == []


@pytest.mark.parametrize("arguments", [["no-such-command"], ["config", "--no-such-option"], ["kafka", "--port", "x"]])
def test_wrong_arguments_end_with_status_2(arguments: list[str]) -> None:
    assert invoke(*arguments).exit_code == 2


def test_config_prints_values_and_where_they_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[transactions]\ntimeout = "9s"\n[checks.endpoints]\norders = ["http://one:80/x"]\n')
    monkeypatch.setenv("CHECKBACK_JOB__MASTER", "local[3]")
    said = invoke("config", "--config", str(file))
    assert said.exit_code == 0
    rows = {row[0]: row[1:] for row in (line.split() for line in said.output.splitlines())}
    assert rows["setting"] == ["value", "from"]
    assert rows["transactions.timeout"] == ["9s", "file"]
    assert rows["checks.endpoints"] == ['{"orders":', '["http://one/x"]}', "file"]
    assert rows["job.master"] == ["local[3]", "environment"]
    assert rows["transactions.check_max"] == ["15", "default"]
    assert rows["checks.in_job"] == ["true", "default"]


def test_config_writes_a_file_to_begin_with(tmp_path: Path) -> None:
    file = tmp_path / "checkback.toml"
    file.write_text(invoke("config", "--default").output, encoding="utf-8")
    said = invoke("config", "--config", str(file))
    assert said.exit_code == 0
    assert {line.split()[-1] for line in said.output.splitlines()[1:]} == {"file"}


def test_kafka_s_address_may_be_an_option() -> None:
    said = invoke("config", "--bootstrap-server", "kafka-1:9092")
    [line] = [line for line in said.output.splitlines() if line.startswith("kafka.bootstrap_servers")]
    assert line.split()[1:] == ["kafka-1:9092", "command", "line"]


def test_config_prints_brackets_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKBACK_JOB__CHECKPOINT", "/data/[bold]/[/end]")
    said = invoke("config")
    assert said.exit_code == 0
    assert "/data/[bold]/[/end]" in said.output


def test_a_wrong_settings_file_ends_with_status_1_and_the_keys_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[transactions]\ntimeot = "6s"\n')
    done = subprocess.run(
        [sys.executable, "-m", "checkback", "config", "--config", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "ConfigurationError: " in done.stderr
    assert "transactions.timeot: unknown key (did you mean timeout?)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["missing.toml", "[draft].toml", "[", "[/bold]"])
def test_an_error_is_told_as_it_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / name
    monkeypatch.setattr(sys, "argv", ["checkback", "config", "-c", str(missing)])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"ConfigurationError: Cannot read the settings file {missing}: No such file or directory.\n"


@pytest.mark.parametrize(
    ("error", "status"),
    [(CheckpointMismatchError("two"), 1), (HalfMessageTimeoutError("late"), 75), (JobFailedError("no Kafka"), 75)],
    ids=lambda value: type(value).__name__,
)
def test_an_error_that_may_pass_has_a_status_of_its_own(
    error: CheckbackError, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setitem(run.__globals__, "app", fail)
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == status
    assert capsys.readouterr().err == f"{type(error).__name__}: {error}\n"


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (
            KafkaTimeoutError("late"),
            75,
            "KafkaUnreachableError: Kafka did not answer (KafkaTimeoutError: late): try again.",
        ),
        (
            TopicAuthorizationFailedError("x"),
            1,
            "NotAllowedError: Kafka does not allow this client one of its resources",
        ),
    ],
)
def test_what_kafka_says_in_the_midst_of_it_is_no_traceback(
    error: KafkaError, status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setitem(run.__globals__, "app", fail)
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == status
    assert capsys.readouterr().err.startswith(said)


def test_topics_are_created_once(broker: LocalKafka, place: Place, tmp_path: Path) -> None:
    topics = Topics("made-" + place.topics.prefix)
    file = tmp_path / "mine.toml"
    file.write_text(
        f'[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\ntopic_prefix = "{topics.prefix}"\n'
        "[job]\nstate_partitions = 5\n"
    )
    first = invoke("topics", "create", "--partitions", "3", "--config", str(file))
    assert first.exit_code == 0
    assert first.output.splitlines() == [f"created  {name}" for name in topics.all()]
    second = invoke("topics", "create", "--config", str(file))
    assert second.exit_code == 0
    assert second.output.splitlines() == [f"is there  {name}" for name in topics.all()]
    with TopicAdministration(broker.bootstrap_servers) as administration:
        assert administration.partitions(topics.all()) == {
            **dict.fromkeys((topics.half, topics.op, topics.check, topics.later), 3),
            **dict.fromkeys((topics.parked, topics.rejected, topics.status, topics.producers, topics.control), 1),
            topics.audit: 1,
            topics.progress: 5,
        }


def test_real_topics_are_created_too(broker: LocalKafka, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKBACK_KAFKA__TOPIC_PREFIX", place.topics.prefix)
    create = ("topics", "create", "--bootstrap-server", broker.bootstrap_servers, "--partitions", "2")
    ours = f"{place.topics.prefix}paid"
    said = invoke(*create, ours)
    assert isinstance(said.exception, ConfigurationError)
    assert "as Checkback's own topics do" in str(said.exception)
    name = f"paid-{place.topics.prefix}"
    try:
        made, again = invoke(*create, name), invoke(*create, name)
        assert made.stdout.splitlines()[-1] == f"created  {name}"
        assert "holds for a topic" not in made.stderr, "there are no half messages"
        assert again.stdout.splitlines()[-1] == f"is there  {name}"
        assert again.stderr == ""
        with TopicAdministration(broker.bootstrap_servers) as administration:
            assert administration.partitions([name]) == {name: 2}
    finally:
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
            admin.delete_topics([name])


def test_more_replicas_than_brokers_is_one_sentence(broker: LocalKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKBACK_KAFKA__TOPIC_PREFIX", "too-many.")
    said = invoke("topics", "create", "--bootstrap-server", broker.bootstrap_servers, "--replication", "3")
    assert isinstance(said.exception, ConfigurationError)
    assert "cannot have 3 replicas: Kafka has fewer brokers" in str(said.exception)


def test_help_is_folded_by_the_terminal_alone() -> None:
    def commands(group: typer.Typer) -> Iterator[str]:
        for command in group.registered_commands:
            yield command.help or ""
        for inner in group.registered_groups:
            yield from commands(inner.typer_instance or typer.Typer())

    texts = list(commands(app))
    assert all(texts)
    assert [text for text in texts if "\n" in text.replace("\n\n", "")] == []


def test_a_check_service_alone_listens_on_loopback_only(place: Place) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    settings = {"KAFKA__BOOTSTRAP_SERVERS": place.bootstrap_servers, "KAFKA__TOPIC_PREFIX": place.topics.prefix}
    given = {**settings, "CHECKS__HTTP_PORT": str(port), "LOG__FORMAT": "text"}
    service = subprocess.Popen(
        [sys.executable, "-m", "checkback", "checks"],
        cwd=ROOT,
        env={**os.environ, **{f"CHECKBACK_{name}": value for name, value in given.items()}},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert service.stdout is not None
        assert any("Answering checks" in line for line in service.stdout)
        assert addresses(psutil.Process(service.pid)) == {"127.0.0.1"}
    finally:
        service.terminate()
        service.communicate(timeout=60)


def test_a_token_is_that_of_a_key_of_the_file(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.toml"
    secrets.write_text(f'"shop-2026" = "{"s" * 40}"\n', encoding="utf-8")
    secrets.chmod(0o600)
    env = {"CHECKBACK_ACCESS__SECRETS": str(secrets)}
    said = CliRunner().invoke(app, ["access", "token", "shop-2026"], env=env)
    assert said.output == f"{SigningKey('shop-2026', 's' * 40).bearer_token}\n"
    lacking = CliRunner().invoke(app, ["access", "token", "bank"], env=env)
    assert (lacking.exit_code, str(lacking.exception)) == (1, f"access.secrets ({secrets}) has no secret of bank.")
    nowhere = CliRunner().invoke(app, ["access", "token", "bank"])
    assert str(nowhere.exception) == "access.secrets names no file: it is a setting, as access.policy is."


def test_a_policys_keys_are_looked_at_before_the_job_does(tmp_path: Path) -> None:
    policy, secrets = tmp_path / "access.toml", tmp_path / "secrets.toml"
    policy.write_text('[accounts.shop]\ngroups = ["shop"]\ntopics = ["*"]\nkeys = ["shop-1"]\n', encoding="utf-8")
    secrets.write_text(f'"other" = "{"s" * 40}"\n', encoding="utf-8")
    secrets.chmod(0o600)

    def said(**env: str) -> Result:
        return CliRunner().invoke(app, ["access", "policy", str(policy)], env=env)

    assert (said().exit_code, "Its keys are not looked at" in said().output) == (0, True)
    refused = said(CHECKBACK_ACCESS__SECRETS=str(secrets))
    assert (refused.exit_code, "has no secret of: shop-1" in refused.output) == (1, True)
    secrets.write_text(f'"shop-1" = "{"s" * 40}"\n', encoding="utf-8")
    refused = said(CHECKBACK_ACCESS__SECRETS=str(secrets), CHECKBACK_ACCESS__KEY="shop-1")
    assert (refused.exit_code, "shop-1 is a key of shop" in refused.output) == (1, True)
