"""Late requests of those who move messages: the forwarder of ``cb.later``, and ``checkback dlq resend``."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from checkback.consumer import ReceivedMessage
from checkback.consumer.retries.resending import transactional_id as resending_id
from checkback.consumer.retry import OwnTopics, dead_letter
from checkback.operations.topics import TopicAdministration
from checkback_cli import app
from streaming.later.clients import transactional_id as forwarding_id
from tests.network.late import arriving, arriving_after_messages, each_late_at_a_step
from tests.place import Place, find_by_environment, wait_until
from tests.streaming.later.scene import halves, moving, write
from torture.network.proxy import Api, Deed, KafkaProxy, Rule

GROUP = "points"
LETTERS = 260
"""More than one transaction of ``dlq resend`` takes."""


@pytest.fixture
def named(place: Place) -> bytes:
    """The forwarder's transactional id."""
    return forwarding_id(place.topics).encode()


def test_a_late_commit_of_the_forwarder_before_the_offsets_of_the_next_transaction(
    place: Place, network: KafkaProxy, named: bytes, *, cured: bool
) -> None:
    """F6: a retry was moved twice."""
    late = Rule(Api.END_TXN, Deed.HOLD_AND_CUT, named)
    rules = partial(arriving_after_messages, Api.TXN_OFFSET_COMMIT, late)
    assert moved_once(late, place, network, rules) is cured


@each_late_at_a_step
def test_any_late_request_of_the_forwarder_at_any_step_of_the_next_transaction(
    place: Place, network: KafkaProxy, named: bytes, api: Api, step: Api
) -> None:
    late = Rule(api, Deed.HOLD_AND_CUT, named)
    assert moved_once(late, place, network, lambda: [arriving(step, late)])


def moved_once(late: Rule, place: Place, network: KafkaProxy, rules: Callable[[], Sequence[Rule]]) -> bool:
    """Move one record after another, until the late request has arrived; whether each was moved once."""
    moved: list[bytes] = []
    if late.api is Api.INIT_PRODUCER_ID:
        network.add(late)
    with moving(place.on(network.address)):
        while not late.answered:
            fresh = rules() if late.requests else []
            network.add(*fresh)
            move_one(place, moved)
            network.remove(*fresh)
            if len(moved) == 1:
                network.add(late)
        move_one(place, moved)
    return halves(place) == moved


def move_one(place: Place, moved: list[bytes]) -> None:
    value = b"%d" % len(moved)
    moved.append(value)
    write(place, value)
    wait_until(lambda: value in halves(place))


def write_letters(place: Place, own: OwnTopics) -> None:
    with TopicAdministration(place.bootstrap_servers) as administration:
        for name in (own.retry, own.dead):
            administration.create_one(name, 1)
        wait_until(lambda: len(administration.partitions([own.retry, own.dead])) == 2)
    producer = Producer({"bootstrap.servers": place.bootstrap_servers})
    for number in range(LETTERS):
        value = b"%d" % number
        first = ReceivedMessage(place.real_topic, 0, number, b"key", value, [("cb-id", value)], 1_767_225_600_000, 16)
        letter = dead_letter(first, own, "tried 17 times in vain")
        producer.produce(letter.topic, letter.value, letter.key, 0, headers=list(letter.headers))
    assert producer.flush(120) == 0


def resend_all() -> bool:
    """Resend all letters as an operator does, who repeats the command when it fails; whether it did not."""
    arguments = ["dlq", "resend", "--all", "--group", GROUP, "--yes", "--json"]
    return CliRunner().invoke(app, arguments).exit_code == 0


def test_a_late_commit_between_letters_and_marks_of_the_next_transaction(
    place: Place, network: KafkaProxy, monkeypatch: pytest.MonkeyPatch, *, cured: bool
) -> None:
    """F7: letters were resent twice, or marked and not resent."""
    assert resent_once(place, network, monkeypatch, Api.END_TXN, Api.PRODUCE) is cured


@pytest.mark.parametrize("step", [Api.PRODUCE, Api.END_TXN], ids=lambda api: api.name)
@pytest.mark.parametrize(
    "api", [Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN], ids=lambda api: api.name
)
def test_each_dead_letter_is_resent_once(
    place: Place, network: KafkaProxy, monkeypatch: pytest.MonkeyPatch, api: Api, step: Api
) -> None:
    assert resent_once(place, network, monkeypatch, api, step)


def resent_once(place: Place, network: KafkaProxy, monkeypatch: pytest.MonkeyPatch, api: Api, step: Api) -> bool:
    """Whether each letter is resent and marked once, when a late request arrives within the second transaction."""
    own = OwnTopics.of(place.topics, GROUP)
    write_letters(place, own)
    find_by_environment(place.on(network.address), monkeypatch)
    sender = resending_id(place.topics, GROUP).encode()
    late, ended = Rule(api, Deed.HOLD_AND_CUT, sender), Rule(Api.END_TXN, text=sender)
    first, then = arriving_after_messages(step, late)
    first.after = ended
    network.add(late, ended, first, then)
    wait_until(resend_all)
    assert late.answered
    letters = Counter(record.value for record in place.read(own.later))
    marks = Counter(record.key for record in place.read(own.dead) if record.value is None)
    numbers = range(LETTERS)
    return letters == {b"%d" % one: 1 for one in numbers} and marks == {b"0:%d" % one: 1 for one in numbers}
