"""Each right of an application or of the check service that is taken away makes one clear error, which names it."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError, TransactionalIdAuthorizationFailedError

from access import Operation, ResourceKind, Right, Role, Whom, rights_of
from checkback import CheckEndpoint, LocalTransactionState, Message, SigningKey, TransactionProducer
from checkback.consumer import ConsumeResult, ConsumerSettings, PushConsumer, StartAt
from checkback.consumer.resetting.control_topic import ControlTopic
from checkback.exceptions import CheckbackError
from checkback.kafka.connecting import TransportName
from checkback.kafka.kafka_python.library import AuthorizationError
from checkback.kafka.librdkafka.errors import NOT_ALLOWED, error_code
from checkback.kafka.librdkafka.library import KafkaException
from checkback.kafka.librdkafka.settling import Settler
from checkback.kafka.librdkafka.transport import ConfluentTransport
from checkback.kafka.send_limits import store_notices
from checkback.kafka.transport import OutgoingRecord
from checkback.operations.topics import TopicAdministration
from checkback.wire.groups import limit_group
from checkback.wire.lanes import new_lane
from checkback.wire.rights import of_settling
from checkers import CheckService
from tests.access.guarded import ORDERS, TOPICS, Guarded, guarded
from tests.checkers.service.scene import request
from tests.place import wait_until

__all__ = ["guarded"]
BOTH = list(TransportName)
SHOP = Whom(group="shop", real=(ORDERS,))
KEY = "s" * 40


class Committed:
    """Answers that each local transaction has committed."""

    def check_local_transaction(self, _: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def without(here: Guarded, user: str, right: Right, work: Callable[[], object], log: pytest.LogCaptureFixture) -> str:
    """What is said, by an error or in the log, when this is done without a right."""
    here.take(user, right)
    log.clear()
    try:
        work()
    except CheckbackError as error:
        return str(error)
    finally:
        here.give(user, right)
    return "\n".join(said_by_us(log))


def said_by_us(log: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in log.records if one.levelno >= logging.WARNING and "grant" in one.getMessage()]


@pytest.mark.parametrize("transport", BOTH)
def test_of_a_producer(guarded: Guarded, transport: str, caplog: pytest.LogCaptureFixture) -> None:
    here, user = guarded, f"shop-{transport}"
    options, announcing = here.options(user, transport), here.options(user)

    def sends() -> None:
        with TransactionProducer(here.servers, "shop", transport=transport, kafka_options=options) as producer:
            producer.commit(producer.prepare(Message(ORDERS, b"v")))
            producer.flush()
            if right.name in {limit_group("shop"), TOPICS.progress}:  # a thread reads, and warns
                wait_until(lambda: bool(said_by_us(caplog)))
        if transport == TransportName.KAFKA_PYTHON:  # the endpoint has no other client
            CheckEndpoint(here.servers, "shop", Committed(), kafka_options=announcing).start().close()

    for right in here.let_in(user, Role.PRODUCER, SHOP):
        if right.name != TOPICS.producers or transport == TransportName.KAFKA_PYTHON:
            assert f"grant its user {right}" in without(here, user, right, sends, caplog)


@pytest.mark.parametrize("transport", BOTH)
def test_a_producer_says_it_of_each_message(guarded: Guarded, transport: str) -> None:
    """A client that could do nothing once says of all that follows only that it has failed."""
    here, user = guarded, f"again-{transport}"
    here.user(user)
    here.give(user, *(Right(Operation.DESCRIBE, ResourceKind.TOPIC, topic) for topic in (TOPICS.half, TOPICS.op)))
    lacking = Right(Operation.WRITE, ResourceKind.TOPIC, TOPICS.half)
    with TransactionProducer(
        here.servers, "shop", transport=transport, kafka_options=here.options(user, transport)
    ) as producer:
        for _ in range(5):
            with pytest.raises(CheckbackError, match=f"grant its user {lacking}"):
                producer.prepare(Message(ORDERS, b"v"))
        here.give(user, lacking)

        def goes_on() -> bool:
            with suppress(CheckbackError):
                producer.prepare(Message(ORDERS, b"v"))
                return True
            return False

        wait_until(goes_on, "the right that was given")


def test_a_client_that_failed_before_its_first_record_says_why(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a busy machine: the check service has its client for seconds when the first answer comes."""
    here, heard = guarded, list[BaseException | None]()
    here.user("silent")
    transport = ConfluentTransport(
        here.servers, 30_000, here.options("silent", TransportName.CONFLUENT), hears_ops=True
    )

    def failed() -> bool:
        transport.hear()
        return "A Kafka client failed" in caplog.text

    wait_until(failed, "its end")
    transport.write_heard(OutgoingRecord(TOPICS.op, 0, None, b"", []), heard.append)
    transport.close(1)
    (error,) = heard
    assert isinstance(error, KafkaException)
    assert error_code(error) in NOT_ALLOWED


class Wanting:
    """A consumer that sends one message back, to be tried again or as a dead letter."""

    def __init__(self, here: Guarded, group: str) -> None:
        self._here, self._group = here, group
        self._options = here.options(group, TransportName.CONFLUENT)

    def work(self, *, dead: bool, until: Callable[[], bool]) -> None:
        self._here.write(ORDERS, b"v")
        chosen = ConsumerSettings(
            start_at=StartAt.FIRST, store_interval=0.2, retry_levels=[600.0], max_reconsume_times=0 if dead else 1
        )
        consumer = PushConsumer(
            *(self._here.servers, self._group, lambda _: ConsumeResult.LATER, [ORDERS]),
            settings=chosen,
            kafka_options=self._options,
        )
        with consumer:

            def done() -> bool:
                consumer.raise_if_dead()
                counts = consumer.figures().all
                return bool(counts.dead if dead else counts.retried) or until()

            wait_until(done, "something")

    def says_that_it_was_reset(self) -> None:
        control = ControlTopic(TOPICS.control, self._here.servers, self._options)
        try:
            control.write({b"k": b"v"})
        finally:
            control.close()


def test_of_a_consumer(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    here, user = guarded, "points"
    consumer = Wanting(here, user)
    rights = here.let_in(user, Role.CONSUMER, Whom(group=user, real=(ORDERS,)))
    create = [right for right in rights if right.operation is Operation.CREATE]
    for right in [*create, *(right for right in rights if right not in create)]:  # before the topics are there
        said = f"grant its user {right}"

        def work(right: Right = right, said: str = said) -> None:
            if right == Right(Operation.WRITE, right.kind, TOPICS.control):
                consumer.says_that_it_was_reset()
            else:
                dead = right.name == TOPICS.dead(user)
                consumer.work(dead=dead, until=lambda: said in "\n".join(said_by_us(caplog)))

        assert said in without(here, user, right, work, caplog), right


def test_of_the_check_service(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    here = guarded
    rights = [right for right in here.let_in("checks", Role.CHECKS) if "settles" not in right.why]
    assert len(rights) == 5
    policy, secrets = here.folder / "keys-access.toml", here.folder / "keys-secrets.toml"
    policy.write_text('[accounts.shop]\ngroups = ["shop"]\nkeys = ["shop-1"]\n', encoding="utf-8")
    secrets.write_text(f'shop-1 = "{KEY}"\n', encoding="utf-8")
    with CheckEndpoint(here.kafka.bootstrap_servers, "shop", Committed(), signing=SigningKey("shop-1", KEY)):
        for right in rights:
            said = f"grant its user {right}"

            def work(said: str = said) -> None:
                _, value, headers = request(group="shop").to_record()
                here.write(TOPICS.check, value, headers)
                service = CheckService(here.settings("checks", access={"policy": str(policy), "secrets": str(secrets)}))
                service.start()

                def done() -> bool:
                    service.raise_if_dead()
                    return said in "\n".join(said_by_us(caplog))

                try:
                    wait_until(done, said)
                finally:
                    service.stop()

            assert said in without(here, "checks", right, work, caplog), right


def test_of_whoever_settles_lanes(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    here, user = guarded, "settling"
    here.user(user)
    rights = list(of_settling(TOPICS.progress))
    here.give(user, *rights)
    settler = Settler(here.servers, TOPICS, here.options(user, TransportName.CONFLUENT))
    assert settler.settle("shop", new_lane()) is None
    for right in rights:
        said = without(here, user, right, lambda: settler.settle("shop", new_lane()), caplog)
        assert f"grant its user {right}" in said, right


def written(here: Guarded, user: str, topics: Iterable[str]) -> set[str]:
    """Those of the topics that take a record of this user."""
    found = set()
    producer = KafkaProducer(
        bootstrap_servers=here.servers, max_block_ms=20_000, enable_idempotence=False, **here.options(user)
    )
    try:
        for topic in topics:
            with suppress(TopicAuthorizationFailedError):
                producer.send(topic, b"forged", b"key").get(120)
                found.add(topic)
    finally:
        producer.close()
    return found


def no_transaction(here: Guarded, user: str, transactional_id: str) -> bool:
    """Whether Kafka refuses this user a transaction of that name."""
    producer = KafkaProducer(bootstrap_servers=here.servers, transactional_id=transactional_id, **here.options(user))
    try:
        producer.init_transactions()
    except TransactionalIdAuthorizationFailedError:
        return True
    finally:
        producer.close(timeout=1)
    return False


def no_notice(here: Guarded, user: str, group: str) -> bool:
    """Whether Kafka refuses what would say that a producer group is over a limit."""
    try:
        store_notices(here.servers, here.options(user), TOPICS.progress, {group: (2**62, "forged")})
    except AuthorizationError:
        return True
    return False


def test_what_a_role_does_not_give_kafka_refuses(guarded: Guarded) -> None:
    here = guarded
    here.user("nobody")
    here.let_in("till", Role.PRODUCER, Whom(group="till", real=(ORDERS,), direct=True))
    here.let_in("stock", Role.PRODUCER, SHOP)
    here.let_in("mail", Role.CONSUMER, Whom(group="mail", real=(ORDERS,)))
    for user, role in (("answers", Role.CHECKS), ("decides", Role.OPERATOR), ("shows", Role.READER)):
        here.let_in(user, role)
    others = (TOPICS.retry("mail"), TOPICS.dead("mail"), TOPICS.retry("other"), TOPICS.dead("other"))
    with TopicAdministration(here.kafka.bootstrap_servers) as administration:
        for topic in others:
            administration.create_one(topic, 1)
        assert administration.wait_for(others) == []
    every = (*TOPICS.all(), *others, ORDERS)
    assert written(here, "nobody", every) == set()
    assert written(here, "shows", every) == set()
    assert written(here, "stock", every) == {TOPICS.half, TOPICS.op, TOPICS.producers}
    assert written(here, "mail", every) == {TOPICS.later, TOPICS.control, TOPICS.dead("mail")}
    assert written(here, "answers", every) == {TOPICS.op}
    assert written(here, "decides", every) == {TOPICS.op, TOPICS.audit}
    assert no_transaction(here, "stock", "checkback-lane:shop:x"), "it cannot hold others back"
    assert no_transaction(here, "till", "checkback-lane:shop:x"), "a lane of another group"
    assert not no_transaction(here, "till", "checkback-lane:till:x")
    assert no_transaction(here, "mail", "checkback-later:cb."), "the job's own"
    for user in ("nobody", "stock", "till", "mail", "answers", "decides", "shows"):
        assert no_notice(here, user, "shop"), "it would stop that group's producers"


def test_of_a_lane_there_is_one_group_only() -> None:
    """What direct delivery adds is the producer's own prefix: no other group's lane, and no topic of ours but one."""
    direct = rights_of(Role.PRODUCER, Whom(group="shop", real=(ORDERS,), direct=True))
    added = {str(right) for right in direct} - {str(right) for right in rights_of(Role.PRODUCER, SHOP)}
    assert added == {
        f"Write on the topic {ORDERS}",
        "Write on transactional ids that begin with 'checkback-lane:shop:'",
        "Read on groups that begin with 'checkback-lane:shop:'",
        "Read on the topic cb.progress",
    }
