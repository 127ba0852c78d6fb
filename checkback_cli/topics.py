"""``checkback topics``."""

from typing import Annotated

import typer
from rich.console import Console

from checkback.exceptions import ConfigurationError, KafkaUnreachableError
from checkback.protocol import Topics, lawful_topic, refuse_own_topic
from checkback.topics import Made, TopicAdministration
from checkback_cli.options import BootstrapServer, ConfigFile
from conf import load

topics = typer.Typer(no_args_is_help=True, help="Checkback's own topics, and yours.")


@topics.callback()
def _group() -> None:
    """Keep ``create`` a command of its own, though it is the only one."""


@topics.command("create")
def create(
    real: Annotated[
        list[str] | None,
        typer.Argument(help="Topics of your own that messages go to, to be created as well.", metavar="[TOPIC]..."),
    ] = None,
    partitions: Annotated[
        int, typer.Option(min=1, max=100_000, help="Of the half, op and check topics, and of yours.")
    ] = 8,
    replication: Annotated[int, typer.Option(min=1, max=1_000, help="3 where messages must not be lost.")] = 1,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Create the topics that are missing, with the retention the age limit asks for.

    Those that are there keep their settings but three: message.timestamp.type becomes LogAppendTime; compression.type
    of those that applications write to becomes uncompressed; retention.ms of the half and the op topic is raised to how
    long half messages may be needed. Topics of your own get as many partitions, and otherwise Kafka's defaults.
    """
    settings = load(config, bootstrap_server)
    kafka, ours = settings.kafka, Topics(settings.kafka.topic_prefix)
    for name in real or ():
        lawful_topic(name)
        refuse_own_topic(name, ours)
        if name.startswith(ours.prefix):
            raise ConfigurationError(f"{name} begins as Checkback's own topics do: choose another name.")
    with TopicAdministration(kafka.bootstrap_servers, kafka.python_client) as administration:
        made = administration.create(
            ours,
            partitions=partitions,
            progress_partitions=settings.job.state_partitions,
            replication=replication,
            times=settings.transactions,
        )
        for name in real or ():
            made[name] = Made.CREATED if administration.create_one(name, partitions, replication) else Made.THERE
        unknown = administration.wait_for(list(made))
    for name, what in made.items():
        Console().print(f"{what}  {name}", highlight=False)
    if unknown:
        raise KafkaUnreachableError(f"Kafka has created {', '.join(unknown)}, and does not know of it yet: wait.")
