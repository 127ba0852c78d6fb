"""``python -m examples.points``: kill the shop and the points services at random, and prove that points equal orders.

Exit status: 0, points equal orders; 1, they do not; 75, no verdict: not all came to rest in time, or something failed
that was not to; 130, Ctrl-C.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from time import monotonic, sleep
from traceback import print_exception

from sqlalchemy import create_engine, inspect, select
from sqlalchemy.orm import Session

from checkback import CheckbackError
from examples.points.customers import NAMES, PAID, Customer, heard_by
from examples.points.kills import plan
from examples.points.rest import Look, Rest, Way
from examples.points.service import Account, Booking
from examples.points.verdict import Points, due, judge
from examples.shop.machine import Machine, Process, say

KEPT, BROKEN, NO_VERDICT, CTRL_C = 0, 1, 75, 130
SHOP, SERVICES = "the shop", ("points service 1", "points service 2")

_TICK_SECONDS = 0.1
_SAY_SECONDS = 5.0


class NoVerdictError(CheckbackError):
    """It cannot be said whether points equal orders."""


class Town:
    """Customers, the shop and two points services, while any of them may be killed."""

    def __init__(self, machine: Machine, services: Mapping[str, Process]) -> None:
        self.kills: Counter[str] = Counter()
        self._machine, self._processes = machine, {SHOP: machine.shop, **services}
        self._began = monotonic()

    def trade(self, customers: Sequence[Customer], seconds: float, seed: int) -> None:
        """Let customers order for so long; kill who is to be killed, and start him again at once."""
        for customer in customers:
            customer.start()
        self._began = monotonic()
        for at, victim in plan(SHOP, SERVICES, seconds, seed):
            self._run_until(at)
            self._processes[victim].kill()
            self._processes[victim].start()
            self.kills[victim] += 1
            self.say(f"SIGKILL to {victim}, which is started again.")
        self._run_until(seconds)
        for customer in customers:
            customer.leave()
        for customer in customers:
            customer.join()

    def come_to_rest(self, way: Way, seconds: float) -> None:
        """Wait until nothing is on its way from the shop to the points any more.

        Raises:
            NoVerdictError: something still is, and nothing has moved for ``seconds``.
        """
        rest, until, say_at = Rest(), self._now + seconds, self._now + _SAY_SECONDS
        before: Look | None = None
        while not rest.reached(look := way.look(self._machine.job_metrics())):
            self._must_run()
            if before is None or (look.waits, look.ends) != (before.waits, before.ends):
                before, until = look, self._now + seconds
            waits = look.waits or "perhaps something that cannot be seen yet"
            if self._now > until:
                raise NoVerdictError(f"Nothing has moved for {seconds:.0f} s, and not all is at rest: {waits}.")
            if self._now > say_at:
                self.say(f"Still on its way: {waits}.")
                say_at += _SAY_SECONDS
            sleep(_TICK_SECONDS)

    def say(self, text: str) -> None:
        """Print it with the time since the first order."""
        say(f"{self._now:6.1f} s  {text}")

    @property
    def _now(self) -> float:
        return monotonic() - self._began

    def _run_until(self, at: float) -> None:
        while self._now < at:
            self._must_run()
            sleep(_TICK_SECONDS)

    def _must_run(self) -> None:
        """Whoever has not been killed must be alive."""
        self._machine.must_run()
        for process in self._processes.values():
            process.must_run()


def main() -> int:
    """See the module."""
    wanted = _arguments()
    folder = Path(mkdtemp(prefix="checkback-points-"))
    status = NO_VERDICT
    try:
        status = _run(folder, wanted)
    except CheckbackError as error:
        say(f"\nNo verdict. {error}")
    except KeyboardInterrupt:
        status = CTRL_C
        say("\nStopped.")
    except Exception as error:  # noqa: BLE001  (whatever it is, it is not that points differ from orders)
        print_exception(error)
        say(f"\nNo verdict. {error!r}")
    finally:
        if status == KEPT:
            rmtree(folder)
        else:
            say(f"Both databases, and what Kafka, the job and the services printed, are in {folder}.")
    return status


def _run(folder: Path, wanted: argparse.Namespace) -> int:
    say(f"Starting Kafka, the job, the shop and two points services (seed {wanted.seed}) ...")
    database = f"sqlite:///{folder / 'points.db'}"
    with ExitStack() as parts:
        machine = parts.enter_context(Machine(folder))
        services = {name: parts.enter_context(_service(name, machine, database)) for name in SERVICES}
        town = Town(machine, services)
        customers = [Customer(name, machine.url, wanted.rate / len(NAMES), wanted.seed) for name in NAMES]
        # what starts is slow; only who is at work is worth killing
        machine.wait_until(lambda: customers[0].order() == PAID, "an order is paid")
        machine.wait_until(lambda: bool(bookings_in(database)), "it is booked")
        say(f"{len(NAMES)} customers order for {wanted.seconds:.0f} s, about {wanted.rate:.0f} times a second.")
        town.trade(customers, wanted.seconds, wanted.seed)
        town.say("The customers have gone. Waiting until all is at rest ...")
        with Way(machine.bootstrap_servers) as way:
            town.come_to_rest(way, wanted.rest)
            town.say("All is at rest.")
            dead = way.dead_letters()
    orders = [Points(order.number, order.customer, order.cents // 100) for order in machine.paid_orders()]
    said = "".join(log.read_text(encoding="utf-8", errors="replace") for log in folder.glob("points service*.log"))
    say("")
    say(f"The customers heard: {', '.join(f'{number} {what}' for what, number in heard_by(customers).most_common())}.")
    say(f"SIGKILL: {', '.join(f'{town.kills[name]} to {name}' for name in (SHOP, *SERVICES))}.")
    say(f"Passed over by the inbox: {said.count('was passed over')}. Dead letters: {dead}.")
    return compare(orders, database)


def compare(orders: Sequence[Points], database: str) -> int:
    """Print both sides, and what comes of it."""
    found = bookings_in(database)
    with Session(create_engine(database)) as session:
        accounts = {account.customer: account.points for account in session.scalars(select(Account))}
    bookings = [Points(one.order, one.customer, one.points) for one in found]
    say(f"Booked after they had failed: {sum(one.tries > 0 for one in found)}.\n")
    say(f"{'':12}{'the shop':>12}{'points':>12}")
    say(f"{'orders':12}{len(orders):12}{len(bookings):12}")
    for customer, should_be in sorted(due(orders).items()):
        say(f"{customer:12}{should_be:12}{accounts.get(customer, 0):12}")
    verdict = judge(orders, bookings, accounts)
    if not verdict.kept:
        say("\nPoints do not equal orders.")
        for sentence in verdict.sentences():
            say(sentence)
        return BROKEN
    if not orders:
        raise NoVerdictError("No order was paid, which proves nothing.")
    say("\nPoints equal orders: each order that the shop's database has committed was booked once, and no other.")
    return KEPT


def bookings_in(database: str) -> list[Booking]:
    """All bookings; none before the points service has made its tables."""
    engine = create_engine(database)
    with Session(engine) as session:
        return list(session.scalars(select(Booking))) if inspect(engine).has_table(Booking.__tablename__) else []


def _service(name: str, machine: Machine, database: str) -> Process:
    environment = {"POINTS_KAFKA": machine.bootstrap_servers, "POINTS_DATABASE": database}
    return Process(machine.folder / f"{name}.log", environment, "examples.points.failing")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.points", description=(__doc__ or "").replace("``", "'"))
    parser.add_argument("--seconds", type=_positive, default=20, help="how long customers order (20)")
    parser.add_argument("--rate", type=_positive, default=20, help="orders a second, of all customers together (20)")
    parser.add_argument("--seed", type=int, default=1, help="for who orders what, and who is killed when (1)")
    parser.add_argument("--rest", type=_positive, default=120, help="how long to wait while nothing moves, in s (120)")
    return parser.parse_args()


def _positive(text: str) -> float:
    number = float(text)
    if number <= 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


if __name__ == "__main__":
    sys.exit(main())
