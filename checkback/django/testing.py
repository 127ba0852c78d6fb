"""For a project's tests: what would be sent, without Kafka; also inside Django's TestCase."""

from collections.abc import Iterator
from contextlib import contextmanager

from checkback.django.configuration import configuration
from checkback.django.process import replaced, transaction_log
from checkback.listener import LocalTransactionState
from checkback.producing.producer import TransactionProducer
from checkback.testing.asking import check_request
from checkback.testing.recording import RecordedTransaction, RecordingTransport


@contextmanager
def recorded_messages(transport: RecordingTransport | None = None) -> Iterator[RecordingTransport]:
    """Have ``transactional`` write into a :class:`~checkback.testing.RecordingTransport` meanwhile.

    ::

        class PayTests(TestCase):
            def setUp(self):
                self.messages = self.enterContext(recorded_messages())

            def test_paying_sends_points(self):
                self.client.post("/orders/1/pay")
                self.assertEqual([one.topic for one in self.messages.committed], ["points"])
    """
    recording = transport or RecordingTransport()
    given = configuration()
    other = TransactionProducer("unused:9092", given.group, transport=recording, topics=given.topics)
    with replaced(other):
        yield recording


def answer_of(transaction: RecordedTransaction) -> LocalTransactionState:
    """What a check of this transaction would be answered, by the connection of the test itself.

    With ``RecordingTransport(lose_ops=True)`` it is what decides: the process died before it could tell.
    """
    return transaction_log().check_local_transaction(check_request(transaction))
