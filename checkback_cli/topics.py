"""``checkback topics``."""

from typing import Annotated

import typer
from rich.console import Console

from checkback.protocol import Topics
from checkback.topics import TopicAdministration
from checkback_cli.options import ConfigFile
from conf import load

topics = typer.Typer(no_args_is_help=True, help="Checkback's own topics.")


@topics.callback()
def _group() -> None:
    """Keep ``create`` a command of its own, though it is the only one."""


@topics.command("create")
def create(
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the half, op and check topics.")] = 8,
    replication: Annotated[int, typer.Option(min=1, help="Replicas; 3 where messages must not be lost.")] = 1,
    config: ConfigFile = None,
) -> None:
    """Create the topics that are missing, with the retention the age limit asks for.

    Those that are there keep their settings but three: message.timestamp.type becomes LogAppendTime; compression.type
    of those that applications write to becomes uncompressed; retention.ms of the half and the op topic is raised to how
    long half messages may be needed.
    """
    settings = load(config)
    kafka = settings.kafka
    with TopicAdministration(kafka.bootstrap_servers, kafka.client_options) as administration:
        made = administration.create(
            Topics(kafka.topic_prefix),
            partitions=partitions,
            progress_partitions=settings.job.state_partitions,
            replication=replication,
            times=settings.transactions,
        )
    for name, what in made.items():
        Console().print(f"{what}  {name}", highlight=False)
