"""One gateway for all clients, on the session's Kafka. Checks are asked by the tests: there is no job."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from checkback.local import LocalKafka
from checkback.wire.protocol import Topics
from tests.gateway.clients import installed
from tests.gateway.clients.driven import Driven
from tests.gateway.clients.gateways import KEY, KEY_SECRET, RunningGateway, guarded
from tests.gateway.clients.installed import Client, NotHereError
from tests.place import Place

CREDENTIALS = {"ACCESS_KEY": KEY, "ACCESS_SECRET": KEY_SECRET}
IN_CI = ("python", "java")
"""The others have to be compiled, or their dependencies to be fetched."""


@pytest.fixture(scope="module")
def whole(broker: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Topics for all tests of a module."""
    prefix = f"t{uuid.uuid4().hex[:12]}."
    real = f"{prefix.rstrip('.')}-orders"  # Java's and Python's clients take no full stop
    made = Place(broker.bootstrap_servers, Topics(prefix), real, tmp_path_factory.mktemp("clients"))
    made.create_topics(real_partitions=4)
    yield made
    made.delete_topics()


@pytest.fixture(scope="module")
def gateway(whole: Place) -> Iterator[RunningGateway]:
    """One with accounts."""
    settings = {"KAFKA__TOPIC_PREFIX": whole.topics.prefix, **guarded(whole.folder, whole.real_topic)}
    with RunningGateway(whole.bootstrap_servers, whole.folder, settings) as running:
        yield running


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name in IN_CI else pytest.mark.lab) for name in installed.ALL],
)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Each of RocketMQ's clients that this machine can run."""
    name: str = request.param
    try:
        return installed.ALL[name](tmp_path_factory.mktemp(name))
    except NotHereError as error:
        pytest.skip(f"RocketMQ's client for {name} {error}")


class Clients:
    """Starts processes of one client."""

    def __init__(self, client: Client, place: Place, gateway: RunningGateway) -> None:
        self._client, self._place, self._gateway = client, place, gateway
        self.address = gateway.address(client)

    def driven(self, **environment: str) -> Driven:
        """One that does what it is told."""
        given = {**CREDENTIALS, **environment}
        return Driven(self._client, self.address, self._place.real_topic, self._place.folder, given)


@pytest.fixture(scope="module")
def clients(client: Client, whole: Place, gateway: RunningGateway) -> Clients:
    """To start more of them."""
    return Clients(client, whole, gateway)


@pytest.fixture(scope="module")
def driven(clients: Clients) -> Iterator[Driven]:
    """A process that is connected."""
    with ExitStack() as stack:
        yield stack.enter_context(clients.driven())
