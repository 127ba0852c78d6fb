"""The two tables as models, for migrations, the admin and a look; the log and the inbox write them by themselves."""

import django
from django.db import models

from checkback.django import inbox, transaction_log
from checkback.django.fields import ExactTextField
from checkback.wire.message_id import MAX_BYTES
from checkback.wire.protocol import MAX_GROUP_BYTES, MAX_ID_BYTES

COMPOSITE_KEYS = django.VERSION >= (5, 2)
"""Whether a model may say that its key has two columns. The table has them in any case."""


class LoggedTransaction(models.Model):
    """A local transaction that has committed, or that a check has blocked."""

    transaction_id = ExactTextField(max_length=MAX_ID_BYTES, primary_key=True)
    state = models.CharField(max_length=9)
    recorded_at = models.DateTimeField()

    class Meta:
        """See ``docs/transaction-log.md``."""

        db_table = transaction_log.TABLE
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.transaction_id}: {self.state}"


class ReceivedByGroup(models.Model):
    """A message that a consumer group has dealt with; only to be read: Django 4.2 takes its id for the whole key."""

    if COMPOSITE_KEYS:
        pk = models.CompositePrimaryKey("consumer_group", "message_id")
    consumer_group = ExactTextField(max_length=MAX_GROUP_BYTES)
    message_id = ExactTextField(max_length=MAX_BYTES, primary_key=not COMPOSITE_KEYS)
    received_at = models.DateTimeField()

    class Meta:
        """See ``docs/delivery.md``."""

        db_table = inbox.TABLE
        default_permissions = ("view",)
        indexes = (models.Index(fields=["consumer_group", "received_at"], name="checkback_inbox_by_age"),)

    def __str__(self) -> str:
        return f"{self.consumer_group}: {self.message_id}"
