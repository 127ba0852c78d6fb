"""What each client has to see from a gateway before a real job; each case ends silently, or raises."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from checkback.testing.cluster import LocalCluster
from tests.gateway.clients.driven import ClientError, Driven
from tests.gateway.clients.gateways import KEY, KEY_SECRET, RunningGateway, guarded
from tests.gateway.clients.installed import Client

LARGE = 3 << 20
_DELIVERY_SECONDS = 60.0


class Place(NamedTuple):
    """Where a client is tried."""

    cluster: LocalCluster
    gateway: RunningGateway
    client: Client
    folder: Path

    @property
    def topic(self) -> str:
        """It has one of its own, and so a producer group."""
        return f"orders-{self.client.name}"

    def driven(self, **environment: str) -> Driven:
        """Another process of the client."""
        return Driven(self.client, self.gateway.address(self.client), self.topic, self.folder, environment)

    def text(self, word: str) -> str:
        """The text of one message: there is no other of it."""
        return f"{self.client.name}-{word}-{time.monotonic_ns()}"

    def found(self, text: str, topic: str = "") -> list[Any]:
        """The records with this text, in the order of their partition."""
        return [
            record for record in self.cluster.read(topic or self.topic) if record.value.rstrip(b"\0") == text.encode()
        ]

    def wait_for(self, text: str, topic: str = "") -> Any:
        """Wait for the record of this text; gives it."""
        until = time.monotonic() + _DELIVERY_SECONDS
        while not (found := self.found(text, topic)):
            assert time.monotonic() < until, f"{text} was not delivered"
            time.sleep(0.2)
        assert len(found) == 1, f"{text} was delivered {len(found)} times"
        return found[0]


def refusal(act: Callable[[], object]) -> str:
    """What a client says when it is refused something."""
    try:
        act()
    except ClientError as error:
        return str(error)
    raise AssertionError("it was not refused")


def until_done(client: Driven, line: str) -> int:
    """How often a client was told something until it did it.

    gRPC fails calls at once for a while after a connection was lost, with UNAVAILABLE: Java's and Node's clients hand
    that on.
    """
    for tries in range(1, 41):
        try:
            client.do(line)
        except ClientError as error:
            if "UNAVAILABLE" not in str(error):
                raise
            time.sleep(0.5)
        else:
            return tries
    raise AssertionError("it was never done")


def normal(place: Place) -> str:
    text = place.text("normal")
    with place.driven() as client:
        message_id = client.send("normal", text)
    record = place.wait_for(text)
    headers = {name: value.decode() for name, value in record.headers}
    assert record.key == b"k1"
    assert (headers["tags"], headers["customer"], headers["rmq-message-id"]) == ("paid", "7", message_id)
    return "in the topic, with key, tag, property and message id"


def fifo(place: Place) -> str:
    texts = [place.text(f"fifo{number}") for number in range(5)]
    with place.driven() as client:
        for text in texts:
            client.send("fifo", text)
    records = [place.wait_for(text) for text in texts]
    assert {record.key for record in records} == {b"g1"}
    assert len({record.partition for record in records}) == 1
    offsets = [record.offset for record in records]
    assert offsets == sorted(offsets)
    return "5 of one message group on one partition, in order"


def delay(place: Place) -> str:
    text = place.text("delay")
    with place.driven() as client:
        at_ms = time.time() * 1000
        client.send("delay", text)
    waited_ms = place.wait_for(text).timestamp - at_ms
    assert 900 < waited_ms < 60_000, waited_ms  # Python's client sends whole seconds
    return f"delivered after {waited_ms / 1000:.1f} s"


def commit(place: Place) -> str:
    text = place.text("commit")
    with place.driven() as client:
        client.do("answer unknown")
        client.send("half", text)
        client.do("commit")
        place.wait_for(text)
    return "delivered"


def rollback(place: Place) -> str:
    text, later = place.text("rollback"), place.text("later")
    with place.driven() as client:
        client.send("half", text)
        client.do("rollback")
        time.sleep(8)  # a check, whose answer is commit, would have come
        client.send("half", later)
        client.do("commit")
        place.wait_for(later)
        assert not client.asked(text)
    assert not place.found(text)
    return "not delivered, and not asked about"


def unknown(place: Place) -> str:
    text = place.text("unknown")
    with place.driven() as client:
        client.do("answer unknown")
        client.send("half", text)
        client.wait_asked(text, 30, times=2)
        assert not place.found(text)
        client.do("answer commit")
        place.wait_for(text)
        assert client.asked(text)[0] == f"{text} {len(text)} paid k1 7"
        return f"asked {len(client.asked(text))} times, delivered after commit"


def crash(place: Place) -> str:
    text = place.text("crash")
    with place.driven() as other:
        with place.driven() as client:
            client.send("half", text)
            client.crash()
        began = time.monotonic()
        asked = other.wait_asked(text, 40) - began
        place.wait_for(text)
    return f"another process was asked after {asked:.1f} s, delivered"


def checked_rollback(place: Place) -> str:
    text, later = place.text("no"), place.text("later")
    with place.driven() as other:
        other.do("answer rollback")
        with place.driven() as client:
            client.send("half", text)
            client.crash()
        other.wait_asked(text, 40)
        other.send("half", later)
        other.do("commit")
        place.wait_for(later)
        time.sleep(6)
        assert len(other.asked(text)) == 1
    assert not place.found(text)
    return "asked once, not delivered"


def restart(place: Place) -> str:
    """The gateway is killed between half and end; then its clients' streams are to be back within a minute."""
    text, orphan = place.text("killed"), place.text("orphan")
    with place.driven() as client, place.driven() as other:
        client.do("answer unknown")
        other.do("answer unknown")
        client.send("half", text)
        place.gateway.kill()
        time.sleep(1)
        began = time.monotonic()
        place.gateway.start()
        tries = until_done(client, "commit")
        place.wait_for(text)
        client.kill()
        other.do("answer commit")
        with place.driven() as third:
            third.send("half", orphan)
            third.crash()
        seconds = other.wait_asked(orphan, 120) - began
        place.wait_for(orphan)
        assert seconds < 75, f"the stream was back after {seconds:.0f} s"
    return f"commit with the old id ({tries} tries): delivered; stream back, and asked, {seconds:.0f} s after the start"


def large(place: Place) -> str:
    text, checked = place.text("large"), place.text("checked")
    with place.driven() as client:
        client.send("half", text, LARGE)
        client.do("commit")
        assert len(place.wait_for(text).value) == LARGE
        client.send("half", checked, LARGE)
        client.wait_asked(checked, 40)
        assert client.asked(checked) == [f"{checked} {LARGE} paid k1 7"]
        assert len(place.wait_for(checked).value) == LARGE
    return "3 MiB delivered; checked with all of it"


def largest(place: Place) -> str:
    """As large as a gateway takes: what asks about it is larger than what gRPC takes by itself."""
    size = 4 << 20
    text, after, too_large = place.text("largest"), place.text("after"), place.text("too-large")
    with place.driven() as client:
        client.send("half", text, size)
        place.wait_for(text)
        client.send("half", after)
        client.wait_asked(after, 40)
        seen = next(said.split(" ")[1] for _, said in client.checks if said.split(" ")[0] in {"", text})
        refused = refusal(lambda: client.send("normal", too_large, size + 1))
    return f"4 MiB: checked with {seen} bytes; one byte more: {refused:.60}"


def namespace(place: Place) -> str:
    """So Java's and Python's clients, which take no full stop in a topic's name, reach one that has one."""
    text = place.text("namespace")
    with place.driven(NAMESPACE="shop") as client:
        client.send("half", text)
        client.wait_asked(text, 40)
        place.wait_for(text, f"shop.{place.topic}")
    return f"asked, and delivered to shop.{place.topic}"


def no_topic(place: Place) -> str:
    with place.driven() as client:
        client.do("topic not-there")
        began = time.monotonic()
        refused = refusal(lambda: client.send("half", place.text("nowhere")))
        seconds = time.monotonic() - began
    assert "40402" in refused or "route" in refused, refused  # Python's client says no more than that it has no route
    assert seconds < 5
    return f"refused after {seconds:.1f} s: {refused:.60}"


def send_as_another(place: Place) -> None:
    with place.driven(ACCESS_KEY=KEY, ACCESS_SECRET="x" * 40) as client:
        client.send("normal", "refused")


def credentials(place: Place) -> str:
    """By a policy that the gateway alone has: the job, which has none, looks at no signature."""
    text, orphan = place.text("signed"), place.text("orphan")
    folder = place.folder / "guarded"
    folder.mkdir(exist_ok=True)
    with RunningGateway(place.cluster.bootstrap_servers, folder, guarded(folder, place.topic)) as gateway:
        own = place._replace(gateway=gateway)
        refused = refusal(lambda: send_as_another(own))
        assert "40100" in refused or "route" in refused, refused  # Python's client says no more
        with own.driven(ACCESS_KEY=KEY, ACCESS_SECRET=KEY_SECRET) as client:
            client.send("half", text)
            client.do("commit")
            place.wait_for(text)
            client.send("half", orphan)
            client.wait_asked(orphan, 40)
            place.wait_for(orphan)
    return f"delivered, and asked; with another secret: {refused[-60:]}"


ALL: dict[str, Callable[[Place], str]] = {
    one.__name__: one
    for one in (
        normal, fifo, delay, commit, rollback, unknown, crash, checked_rollback, namespace, no_topic, large, largest,
        credentials, restart,
    )
}  # fmt: skip
