"""``checkback topics``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from checkback.exceptions import ConfigurationError, KafkaUnreachableError
from checkback.operations.topics import Made, TopicAdministration, confirmed_by, usual_replication
from checkback.wire.protocol import lawful_topic, refuse_own_topic
from checkback_cli.terminal.options import WRONG, AsJson, BootstrapServer, ConfigFile
from conf import load

if TYPE_CHECKING:
    from checkback.operations.topic_facts import Fault, TopicFacts
    from conf import Settings

_NAMES = ("topic", "partitions", "replicas", "in sync", "kept", "records", "as it should be")

topics = typer.Typer(no_args_is_help=True, help="Checkback's own topics, and yours.")


@topics.command("create")
def create(
    real: Annotated[
        list[str] | None,
        typer.Argument(help="Topics of your own that messages go to, to be created as well.", metavar="[TOPIC]..."),
    ] = None,
    partitions: Annotated[
        int, typer.Option(min=1, max=100_000, help="Of the half, op and check topics, and of yours.")
    ] = 8,
    replication: Annotated[
        int | None,
        typer.Option(
            min=1, max=1_000, help="Not given: 3 where there are three brokers or more, else 1.", show_default=False
        ),
    ] = None,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Create the topics that are missing, with the retention the age limit asks for.

    Those that are there keep their settings but five: message.timestamp.type becomes LogAppendTime; cleanup.policy what
    the topic needs; unclean.leader.election.enable false; compression.type of those that applications write to
    uncompressed; retention.ms of the half and the op topic is raised to how long half messages may be needed. Topics of
    your own get as many partitions, and otherwise Kafka's defaults. With three replicas min.insync.replicas is 2: what
    Kafka has confirmed outlives the loss of any one broker, and nobody waits for the third.
    """
    settings = load(config, bootstrap_server)
    kafka, ours = settings.kafka, settings.kafka.topics
    for name in real or ():
        lawful_topic(name)
        refuse_own_topic(name, ours)
        if name.startswith(ours.prefix):
            raise ConfigurationError(f"{name} begins as Checkback's own topics do: choose another name.")
    with TopicAdministration(kafka.bootstrap_servers, kafka.python_client) as administration:
        brokers = administration.brokers()
        replicas = replication or usual_replication(brokers)
        if replication is None and brokers > 1:
            typer.echo(_REPLICAS.format(brokers, replicas, "" if replicas == 1 else "s"), err=True)
        made = administration.create(
            ours,
            partitions=partitions,
            progress_partitions=settings.job.state_partitions,
            replication=replicas,
            times=settings.transactions,
        )
        for name in real or ():
            new = administration.create_one(name, partitions, replicas, confirmed_by(replicas))
            made[name] = Made.CREATED if new else Made.THERE
        unknown = administration.wait_for(list(made))
    for name, what in made.items():
        Console().print(f"{what}  {name}", highlight=False)
    new = any(made[name] is Made.CREATED for name in real or ())
    if new and made[ours.half] is not Made.CREATED and _has_half_messages(settings):
        typer.echo(_HELD, err=True)
    if unknown:
        raise KafkaUnreachableError(f"Kafka has created {', '.join(unknown)}, and does not know of it yet: wait.")


def _has_half_messages(settings: "Settings") -> bool:
    from contextlib import closing

    from checkback.operations.topic_facts import facts_of
    from checkback.operations.topics import admin_client

    half = settings.kafka.topics.half
    with closing(admin_client(settings.kafka.bootstrap_servers, settings.kafka.python_client)) as admin:
        return bool(facts_of(admin, (half,))[half].records)


_REPLICAS = "{} brokers answer: new topics get {} replica{} (--replication)."
_HELD = (
    "The job tries messages that it holds for a topic again by itself, after 10 min at most ('checkback status' says "
    "when). 'checkback redeliver' delivers those that it has parked."
)


@topics.command("list")
def show(
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """List Checkback's own topics: partitions, replicas, how long records are kept, and what is wrong.

    'in sync' is min.insync.replicas. 'records' are at most so many: of compacted topics many are gone. Exit status 1
    when one is missing, or such that the job does not start or loses something.
    """
    from contextlib import closing

    from checkback.operations.topic_facts import facts_of, faults
    from checkback.operations.topics import admin_client
    from checkback_cli.terminal.listing import show_objects, show_rows

    settings = load(config, bootstrap_server)
    kafka, ours = settings.kafka, settings.kafka.topics
    with closing(admin_client(kafka.bootstrap_servers, kafka.python_client)) as admin:
        found = facts_of(admin, ours.all())
    wrong = faults(found, ours, settings.transactions, settings.job.state_partitions)
    if as_json:
        show_objects(_object(one, wrong) for one in found.values())
    else:
        show_rows(_NAMES, (_row(one, wrong) for one in found.values()))
    if any(fault.stops for fault in wrong):
        raise typer.Exit(WRONG)


def _row(one: "TopicFacts", wrong: "list[Fault]") -> tuple[object, ...]:
    said = "; ".join(f"{fault.what}: {fault.todo}" for fault in wrong if fault.topic == one.name) or "yes"
    if not one.partitions:
        return one.name, 0, "-", "-", "-", "-", said
    in_sync = one.configuration.get("min.insync.replicas", "?")
    records = "?" if one.records is None else one.records
    return one.name, one.partitions, one.replication, in_sync, one.kept, records, said


def _object(one: "TopicFacts", wrong: "list[Fault]") -> dict[str, Any]:
    return {
        "topic": one.name,
        "partitions": one.partitions,
        "replication": one.replication,
        "compacted": one.compacted,
        "records": one.records,
        "configuration": dict(one.configuration),
        "faults": [fault._asdict() for fault in wrong if fault.topic == one.name],
    }
