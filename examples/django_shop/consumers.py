"""What ``python -m examples.django_shop checkback_consume`` runs: the other side, here in the same project."""

import json

from checkback.consumer import ReceivedMessage
from examples.django_shop.models import PaidOrder


def confirm(message: ReceivedMessage) -> None:
    """Called in a database transaction, once for each message, however often it comes."""
    PaidOrder.objects.get(number=json.loads(message.value or b"")["order"])
