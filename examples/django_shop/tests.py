"""What a project's own tests look like: no Kafka, and Django's TestCase. ``python -m examples.django_shop test``."""

from django.test import TestCase

from checkback import LocalTransactionState
from checkback.django.testing import answer_of, recorded_messages
from checkback.testing import RecordingTransport
from examples.django_shop.models import PaidOrder


class PayTests(TestCase):
    """The view."""

    def setUp(self) -> None:
        """Record what is sent."""
        self.messages = self.enterContext(recorded_messages())

    def test_a_paid_order_is_sent(self) -> None:
        """Both the row and the message."""
        response = self.client.post("/orders/7/pay")
        assert response.status_code == 201
        assert [one.value for one in self.messages.committed] == [b'{"order": 7}']

    def test_an_order_is_paid_once(self) -> None:
        """The second time nothing is sent."""
        assert [self.client.post("/orders/7/pay").status_code for _ in "12"] == [201, 409]
        assert len(self.messages.committed) == 1
        assert PaidOrder.objects.count() == 1


class DiedTests(TestCase):
    """The process dies between the database's commit and the op: the check decides."""

    def test_a_check_finds_what_was_paid(self) -> None:
        """Lost ops are what a killed process leaves."""
        messages = self.enterContext(recorded_messages(RecordingTransport(lose_ops=True)))
        self.client.post("/orders/7/pay")
        self.client.post("/orders/7/pay")
        answers = [answer_of(one) for one in messages.transactions]
        assert answers == [LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK]
