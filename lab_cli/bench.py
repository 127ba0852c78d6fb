"""``checkback bench``."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from checkback.producing.delivery import DeliveryMode
from lab_cli.bench_capacity import capacity
from lab_cli.bench_figures import (
    Against,
    Cores,
    JsonFile,
    PlotFile,
    Runs,
    can_plot,
    flat,
    show,
    show_against,
    show_with_cost,
    tell,
    write,
)
from lab_cli.bench_lasting import open_ones, soak
from lab_cli.bench_workers import workers

if TYPE_CHECKING:
    from bench import ThroughputResult

Delivery = Annotated[
    DeliveryMode, typer.Option(help="Who delivers: the job, or the producer by its lane, in docs/direct-delivery.md.")
]

_DIRECT_INTERVAL_MS = 2_000
"""What docs/direct-delivery.md advises where all producers deliver."""

bench = typer.Typer(no_args_is_help=True, help="Measurements, each on a Kafka of its own.")


bench.command("capacity")(capacity)
bench.command("open")(open_ones)
bench.command("soak")(soak)
bench.command("workers")(workers)


@bench.command("throughput")
def throughput(
    transactions: Annotated[int, typer.Option(min=1000, help="Transactions to time.")] = 300_000,
    value_bytes: Annotated[int, typer.Option(min=0, help="Size of a message.")] = 256,
    warm_up: Annotated[
        int | None,
        typer.Option(
            min=1000, help="Transactions before those that are timed; not given: as many.", show_default=False
        ),
    ] = None,
    mixed: Annotated[
        bool, typer.Option("--mix", help="5 % are rolled back, 5 % have a late op, and 1 % none: a check decides.")
    ] = False,
    delivery: Annotated[
        DeliveryMode, typer.Option(help="direct: their ops say that a lane has delivered them; the job counts them.")
    ] = DeliveryMode.JOB,
    signed: Annotated[bool, typer.Option("--signed", help="All are signed, and the job's policy wants that.")] = False,
    against: Against = None,
    runs: Runs = 2,
    cores: Cores = 2,
    json_file: JsonFile = None,
) -> None:
    """Transactions per second on a backlog: Kafka in and Kafka out, exactly once; and what one costs in CPU time.

    Every delivery is counted and must be there once. 'warm' says whether the JIT was done. On Linux.
    """
    from bench import measure_throughput

    def measured() -> "ThroughputResult":
        return measure_throughput(
            transactions, value_bytes, cores, warm_up, mixed=mixed, delivery=delivery, signed=signed
        )

    if against is not None:
        show_against(measured, value_bytes, against, runs, json_file)
        return
    with Console(stderr=True).status("Writing the backlog, working it off, counting deliveries (minutes) ..."):
        result = measured()
    show_with_cost(asdict(result), json_file)


@bench.command("end-to-end")
def end_to_end(
    transactions: Annotated[int, typer.Option(min=1000, help="Transactions to time.")] = 100_000,
    warm_up: Annotated[int, typer.Option(min=1000, help="Transactions before those that are timed.")] = 100_000,
    value_bytes: Annotated[int, typer.Option(min=16, help="Size of a message.")] = 256,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the process that sends.")] = 32,
    against: Against = None,
    runs: Runs = 2,
    cores: Cores = 2,
    json_file: JsonFile = None,
) -> None:
    """Transactions per second from the senders' call to the consumer's listener; everything shares the cores. On Linux.

    Senders use the SDK, and wait for each call; a push consumer reads. RocketMQ's figure is of this shape.
    """
    from bench import EndToEndPlan, measure_end_to_end

    plan = EndToEndPlan(transactions, warm_up, value_bytes, threads, cores)
    if against is not None:
        show_against(lambda: measure_end_to_end(plan), value_bytes, against, runs, json_file)
        return
    with Console(stderr=True).status("Sending and consuming at once (a minute or two) ..."):
        result = measure_end_to_end(plan)
    show_with_cost(asdict(result), json_file)


@bench.command("backlog")
def backlog(
    records: Annotated[int, typer.Option(min=1000, help="Half messages and ops together.")] = 5_000_000,
    value_bytes: Annotated[int, typer.Option(min=0, help="Size of a message.")] = 256,
    driver_memory: Annotated[str, typer.Option(help="The job's setting of that name.")] = "2g",
    cores: Cores = 2,
    json_file: JsonFile = None,
) -> None:
    """Memory and time that the job takes to work off a backlog, as a process of its own. On Linux.

    The peak is that of all its processes together, sampled once a second. Every delivery must be there once.
    """
    from bench import measure_backlog

    with Console(stderr=True).status("Writing the backlog, working it off, counting deliveries (minutes) ..."):
        result = measure_backlog(records, value_bytes, driver_memory, cores)
    show(asdict(result), json_file)


@bench.command("latency")
def latency(
    per_second: Annotated[int, typer.Option("--per-second", "--rate", min=1, help="Transactions per second.")] = 200,
    seconds: Annotated[int, typer.Option(min=5, help="For how long, after the warm-up.")] = 60,
    delivery: Delivery = DeliveryMode.JOB,
    warm_up: Annotated[int, typer.Option(min=1, help="Seconds of warm-up, at the same rate.")] = 60,
    batch_interval: Annotated[
        int | None,
        typer.Option(
            min=0, max=10_000, help="The job's, in ms; 2000 where producers deliver, else 0.", show_default=False
        ),
    ] = None,
    cores: Cores = 2,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Time from an op's sending until a read_committed consumer has the message; and what a batch costs in CPU time.

    'warm' says whether the JIT was done. On Linux.
    """
    from bench import Rate, draw, measure_latency, panels_of_latency

    can_plot(plot_file)
    if batch_interval is None:
        batch_interval = _DIRECT_INTERVAL_MS if delivery is DeliveryMode.DIRECT else 0
    with Console(stderr=True).status(f"Sending {per_second} transactions a second for {seconds + warm_up} s ..."):
        result = measure_latency(Rate(per_second, warm_up, seconds), cores, delivery, batch_interval)
    show_with_cost(asdict(result), json_file)
    if plot_file is not None:
        draw(panels_of_latency(result), plot_file)


@bench.command("guard")
def guard(
    commit: Annotated[str, typer.Argument(help="Of this checkout's repository: what to compare with.")],
    runs: Annotated[
        int | None, typer.Option(min=1, help="Pairs of runs; 3, or 1 with --short.", show_default=False)
    ] = None,
    short: Annotated[bool, typer.Option("--short", help="Less of everything: a pair takes under 3 minutes.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Compare the CPU time of a transaction and of a small batch with another commit's. On Linux, in a checkout.

    Runs alternate. Exit status 1 where this checkout takes more, beyond what the same commit differs from itself.
    """
    from bench import SHORT_GUARD, GuardPlan, measure_guard

    plan = SHORT_GUARD if short else GuardPlan()
    plan = replace(plan, runs=runs) if runs else plan
    result = measure_guard(commit, plan, tell)
    table = Table("CPU time of the job", "this checkout", commit, "ratio", "noise", "", box=None, pad_edge=False)
    for name, one in result.compared.items():
        sides = (", ".join(f"{figure:.1f}" for figure in side) for side in (one.this, one.other))
        said = name.replace("_", " ").replace(" per ", " a ").replace("batch", "small batch")
        table.add_row(said, *sides, f"{one.ratio:.3f}", f"± {one.noise:.3f}", one.verdict)
    Console().print(table)
    if json_file is not None:
        write(asdict(result), json_file)
    if result.worse:
        raise typer.Exit(1)


@bench.command("producer")
def producer(
    seconds: Annotated[float, typer.Option(min=0.5, help="How long to send with each number of threads.")] = 5.0,
    json_file: JsonFile = None,
) -> None:
    """Half message and op from one process, by both transports, in the modes each has; and a plain send."""
    from bench import measure_producers

    with Console(stderr=True).status("Sending with 1, 8 and 32 threads ..."):
        results = measure_producers(seconds=seconds)
    by_name = {f"{result.transport} {result.delivery}": asdict(result) for result in results}
    show({f"{name} {figure}": value for name, its in by_name.items() for figure, value in its.items()}, None)
    if json_file is not None:
        write(by_name, json_file)


@bench.command("gateway")
def gateway(
    processes: Annotated[int, typer.Option(min=1, help="Processes of the gateway.")] = 1,
    seconds: Annotated[float, typer.Option(min=1, help="How long each step lasts.")] = 15.0,
    streams: Annotated[int, typer.Option(min=1, help="Clients that are connected and do nothing.")] = 10_000,
    json_file: JsonFile = None,
) -> None:
    """Transactions per second through a gateway, its CPU time for each, and its memory with many clients. On Linux."""
    from bench import GatewayPlan, measure_gateway

    with Console(stderr=True).status("Starting Kafka and the gateway ...") as status:
        result = measure_gateway(GatewayPlan(processes, seconds, streams=streams), status.update)
    show(asdict(result), json_file)


@bench.command("consume")
def consume(
    messages: Annotated[int, typer.Option(min=10_000, help="Messages in the topic.")] = 60_000,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the consumer.")] = 10,
    listener_ms: Annotated[float, typer.Option(min=0.1, help="How long the listener takes.")] = 1.0,
    json_file: JsonFile = None,
) -> None:
    """Messages per second of a push consumer; beside the client alone, and with a tenth failing."""
    from bench import measure_consumers

    with Console(stderr=True).status("Reading with the client alone, all well, and with a tenth that fails ..."):
        result = measure_consumers(messages, threads, listener_ms)
    show(asdict(result), json_file)


@bench.command("checks")
def checks(
    number: Annotated[int, typer.Option("--checks", min=1000, help="Checks to work off.")] = 60_000,
    batch: Annotated[int, typer.Option(min=1, max=100, help="Checks that the endpoints take at once.")] = 100,
    per_second: Annotated[int, typer.Option(min=1, help="Checks per second for the answer times.")] = 300,
    seconds: Annotated[int, typer.Option(min=1, help="For how long, without and with a group that hangs.")] = 20,
    json_file: JsonFile = None,
) -> None:
    """Checks per second that one check service answers on one core; what a group that hangs costs the others."""
    from bench import measure_checks

    with Console(stderr=True).status("Writing checks, having them answered, timing answers (a minute or two) ..."):
        result = measure_checks(number, batch, per_second, seconds)
    show(asdict(result), json_file)


@bench.command("outage")
def outage(
    open_transactions: Annotated[int, typer.Option("--open", min=100, help="Transactions left open.")] = 100_000,
    away: Annotated[float, typer.Option(min=5, help="Seconds for which nobody answers for them.")] = 300.0,
    scale: Annotated[
        float,
        typer.Option(
            min=1,
            help="Divides check_interval, unreachable_backoff_max and check_answer_ttl: --away 360 --scale 10 has as "
            "many rounds of checks as an hour at the defaults.",
        ),
    ] = 1.0,
    groups: Annotated[int, typer.Option(min=2, help="Producer groups that are away.")] = 4,
    per_second: Annotated[int, typer.Option(min=1, help="Transactions per second of the healthy group.")] = 50,
    value_bytes: Annotated[int, typer.Option(min=1, help="Size of a message that is left open.")] = 256,
    driver_memory: Annotated[str, typer.Option(help="The job's setting of that name.")] = "2g",
    cores: Cores = 2,
    delivery: Delivery = DeliveryMode.JOB,
    json_file: JsonFile = None,
) -> None:
    """The worst day of the producers: many transactions open, all endpoints away, then back at once. On Linux.

    Half of one group's endpoints hang then, and in the drain the job is killed (SIGKILL) and started again. A healthy
    group beside them is timed all the while. Every delivery must be there once.
    """
    from bench import Outage, measure_outage

    asked_for = Outage(open_transactions, away, scale, groups, per_second, value_bytes, driver_memory, cores, delivery)
    result = measure_outage(asked_for, tell)
    show(flat(asdict(result)), None)
    if json_file is not None:
        write(asdict(result), json_file)
    aims = Table("", "measured", "aim", box=None, pad_edge=False, title="10^6 open, an hour away, default settings")
    for name, (measured, aim) in result.aims().items():
        aims.add_row(name, str(measured), aim)
    Console().print(aims)


@bench.command("recover")
def recover(
    kills: Annotated[int, typer.Option(min=1, help="How often the job is killed (SIGKILL) and started again.")] = 3,
    per_second: Annotated[int, typer.Option(min=1, help="Transactions per second meanwhile.")] = 50,
    alive: Annotated[float, typer.Option(min=1, help="Seconds for which it works before each kill.")] = 30.0,
    cores: Cores = 2,
    json_file: JsonFile = None,
) -> None:
    """Time from the job's start, and from its SIGKILL, until it runs and until it delivers what is new. On Linux."""
    from bench import measure_recovery

    result = measure_recovery(kills, per_second, alive, cores, tell)
    show(asdict(result), json_file)


@bench.command("neighbours")
def neighbours(
    hanging: Annotated[int, typer.Option(min=0, help="Groups whose endpoints hang.")] = 40,
    slow_names: Annotated[int, typer.Option(min=0, help="Groups whose endpoints' names take 20 s to look up.")] = 40,
    large_per_second: Annotated[int, typer.Option(min=0, help="Halves of 500 KB a second, of another group.")] = 20,
    seconds: Annotated[float, typer.Option(min=10, help="For how long, alone and with the neighbours.")] = 60.0,
    per_second: Annotated[int, typer.Option(min=1, help="Transactions per second of the healthy group.")] = 50,
    driver_memory: Annotated[str, typer.Option(help="The job's setting of that name.")] = "2g",
    cores: Cores = 2,
    delivery: Delivery = DeliveryMode.JOB,
    json_file: JsonFile = None,
) -> None:
    """What groups that hang, slow names and a flood of large halves cost a healthy group beside them. On Linux."""
    from bench import Neighbours, measure_neighbours

    asked_for = Neighbours(
        hanging=hanging,
        slow_names=slow_names,
        large_per_second=large_per_second,
        per_second=per_second,
        seconds=seconds,
        driver_memory=driver_memory,
        cores=cores,
        delivery=delivery,
    )
    result = measure_neighbours(asked_for, tell)
    show(flat(asdict(result)), None)
    if json_file is not None:
        write(asdict(result), json_file)


@bench.command("dead-lanes")
def dead_lanes(
    lanes: Annotated[int, typer.Option(min=1, help="Lanes that die at once.")] = 1_000,
    half_messages: Annotated[int, typer.Option(min=1, help="Half messages that each leaves open.")] = 100,
    groups: Annotated[int, typer.Option(min=1, help="Producer groups that the lanes are of.")] = 4,
    cores: Cores = 2,
    json_file: JsonFile = None,
) -> None:
    """Time until all is settled and decided that producers of delivery='direct' left open. On Linux.

    Every message must be there once.
    """
    from bench import DeadLanes, measure_dead_lanes

    show(asdict(measure_dead_lanes(DeadLanes(lanes, half_messages, groups, cores), tell)), json_file)


@bench.command("due-together")
def due_together(
    transactions: Annotated[int, typer.Option(min=100, help="Transactions of a wave, without an op.")] = 20_000,
    waves: Annotated[int, typer.Option(min=1, help="Waves that are timed; one more is for the warm-up.")] = 3,
    cores: Cores = 2,
    json_file: JsonFile = None,
) -> None:
    """Time until transactions are delivered that fall due for their check together. On Linux.

    One process answers all checks with commit. Every message must be there once.
    """
    from bench import DueTogether, measure_due_together

    show(asdict(measure_due_together(DueTogether(transactions, waves, cores=cores), tell)), json_file)
