"""``python -m examples.shop``: pay some orders, let the shop's process die at the worst moments, and compare."""

import sys
from collections import Counter
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import httpx

from checkback import CheckbackError
from examples.shop.crashing import AFTER, BEFORE
from examples.shop.machine import Machine, say
from examples.shop.services import SERVICES, Service
from examples.shop.web import Order, messages

CUSTOMERS = ("ada", "bert", "cleo")
ORDERS = 12
REFUSED = {3, 10}  # these are dearer than the card allows
DEATHS = {4: AFTER, 7: BEFORE, 11: AFTER}


def main() -> int:
    """Exit status: 0 when every service got exactly the orders that are paid in the database."""
    say("Starting Kafka, the job and the shop ...")
    folder = Path(mkdtemp(prefix="checkback-shop-"))
    try:
        status = _run(folder)
    except CheckbackError as error:
        say(str(error))
        status = 1
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        say(f"What Kafka, the job and the shop printed is in {folder}.")
        raise
    if status:
        say(f"What Kafka, the job and the shop printed is in {folder}.")
    else:
        rmtree(folder)
    return status


def _run(folder: Path) -> int:
    with Machine(folder) as machine:
        services = [Service(machine.bootstrap_servers, name) for name in SERVICES]
        for service in services:
            service.start()
        for number in range(1, ORDERS + 1):
            cents = 99_900 if number in REFUSED else number * 1_000
            say(f"order {number}: {place_and_pay(machine, CUSTOMERS[number % 3], cents, DEATHS.get(number, ''))}")
        say("Waiting until every transaction is decided: where the shop died, the job asks its database ...")
        machine.wait_until_decided(ORDERS)
        got = {service.name: service.close() for service in services}
        return compare(machine.paid_orders(), got)


def place_and_pay(machine: Machine, customer: str, cents: int, death: str) -> str:
    """Place an order and pay it; says what the customer saw."""
    new = {"customer": customer, "cents": cents}
    order = httpx.post(f"{machine.url}/orders", json=new, timeout=30).json()["order"]
    try:
        answer = httpx.post(f"{machine.url}/orders/{order}/pay", headers={"die": death}, timeout=30)
    except (httpx.NetworkError, httpx.RemoteProtocolError):
        machine.restart_shop()
        return f"the shop died {death}, and was started again"
    return "paid" if answer.is_success else f"not paid, {answer.text}"


def compare(paid: list[Order], got: dict[str, list[bytes]]) -> int:
    """Print both sides; 0 when they are the same, each message once."""
    say(f"\npaid in the database: {', '.join(str(order.number) for order in paid)}")
    agree = True
    for name, received in got.items():
        say(f"\n{name} got {len(received)} messages:")
        for message in received:
            say(f"  {message.decode()}")
        agree &= Counter(received) == Counter(messages(order)[name] for order in paid)
    say("\nEvery service got exactly the paid orders, each once." if agree else "\nThey do not agree.")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
