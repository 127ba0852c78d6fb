"""A lane whose requests arrive late: what a producer was told of a transaction is what its consumers see."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import pytest

from checkback import Message, TransactionProducer
from checkback.operations.topics import TopicAdministration
from checkback.producing.direct import direct
from checkback.wire.lanes import ID_PREFIX
from tests.network.late import arriving, arriving_after_messages, each_late_at_a_step
from tests.place import Place
from torture.network.proxy import Api, Deed, KafkaProxy, Rule

LANES = ID_PREFIX.encode()
TOLD_SECONDS = 60.0


class Shop:
    """A producer with one lane, and what it was told of each message: whether it can be read, or is left to the job."""

    def __init__(self, place: Place, network: KafkaProxy, producer: TransactionProducer) -> None:
        self._place = place
        self._network = network
        self._producer = producer
        self.promised: Counter[str] = Counter()
        """How often each message must be readable while no job runs."""

    def sell(self, *names: str, topic: str = "", bytes_each: int = 0) -> bool:
        """Commit one transaction of a message for each name; whether its lane has delivered it."""
        topic = topic or self._place.real_topic
        messages = [
            Message(topic, name.encode().ljust(bytes_each, b"."), b"key", partition=number % 4)
            for number, name in enumerate(names)
        ]
        half = self._producer.prepare_several(messages) if len(messages) > 1 else self._producer.prepare(messages[0])
        delivery = self._producer.end(half, None)
        delivered = delivery is not None and delivery.delivered(TOLD_SECONDS)
        assert delivered or delivery is None or delivery.left_to_job
        self.promised.update(dict.fromkeys(names, int(delivered)))
        return delivered

    def sell_until(self, late: Rule, rules: Callable[[], Sequence[Rule]], messages: int = 2) -> None:
        """Commit transactions, with rules of their own, until the late request has arrived within one of them."""
        for number in count(1):
            fresh = rules()
            self._network.add(*fresh)
            self.sell(*(f"{number}-{message}" for message in range(messages)))
            if late.answered:
                return
            self._network.remove(*fresh)

    def kept_promises(self) -> bool:
        """Whether consumers read what was delivered, once, and nothing of what the job is to deliver."""
        records = self._place.read(self._place.real_topic)
        return Counter(record.value.decode() for record in records) == +self.promised


@pytest.fixture(autouse=True)
def _one_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "LANES", 1)


@contextmanager
def open_shop(place: Place, network: KafkaProxy) -> Iterator[Shop]:
    with TransactionProducer(
        *(network.address, "shop"), topics=place.topics, transport="confluent-kafka", delivery="direct"
    ) as producer:
        yield Shop(place, network, producer)


def test_a_late_commit_between_two_messages_of_the_next_transaction(
    place: Place, network: KafkaProxy, *, cured: bool
) -> None:
    """F1: one of the two was readable, the other was lost."""
    late = Rule(Api.END_TXN, Deed.HOLD_AND_CUT, LANES)
    with open_shop(place, network) as shop:
        network.add(late)
        assert shop.sell("T1")
        shop.sell_until(late, lambda: arriving_after_messages(Api.PRODUCE, late))
    assert shop.kept_promises() is cured


def test_a_late_abort_of_a_refused_transaction_before_the_ledger_of_the_next(
    place: Place, network: KafkaProxy, *, cured: bool
) -> None:
    """F2: the next message was lost."""
    small = f"{place.topics.prefix}small"
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(small, 1, 1, {"max.message.bytes": "1000"})
    late = Rule(Api.END_TXN, Deed.HOLD_AND_CUT, LANES)

    with open_shop(place, network) as shop:
        network.add(late)
        assert not shop.sell("T1", topic=small, bytes_each=2_000)
        shop.sell_until(late, lambda: arriving_after_messages(Api.ADD_OFFSETS_TO_TXN, late), messages=1)
    assert shop.kept_promises() is cured


def test_a_late_commit_before_the_ledger_of_the_next_transaction(
    place: Place, network: KafkaProxy, *, cured: bool
) -> None:
    """F3: the lane and the job both delivered the next message."""
    late = Rule(Api.END_TXN, Deed.HOLD_AND_CUT, LANES)
    with open_shop(place, network) as shop:
        network.add(late)
        assert shop.sell("T1")
        shop.sell_until(late, lambda: arriving_after_messages(Api.TXN_OFFSET_COMMIT, late), messages=1)
    assert shop.kept_promises() is cured


@each_late_at_a_step
def test_any_late_request_at_any_step_of_the_next_transaction(
    place: Place, network: KafkaProxy, api: Api, step: Api
) -> None:
    late = Rule(api, Deed.HOLD_AND_CUT, LANES)
    if api is Api.INIT_PRODUCER_ID:
        network.add(late)
    with open_shop(place, network) as shop:
        network.add(late)
        shop.sell("T1")
        shop.sell_until(late, lambda: [arriving(step, late)])
    assert shop.kept_promises()
