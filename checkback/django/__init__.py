"""Checkback in Django: ``"checkback.django"`` in INSTALLED_APPS. Needs the extra ``django``; see ``docs/django.md``."""

from checkback.django.inbox import DjangoInbox
from checkback.django.process import announce, producer
from checkback.django.transacting import TransactionalBlock, transactional
from checkback.django.transaction_log import DjangoTransactionLog
from checkback.producing.scope import Rollback

__all__ = [
    "DjangoInbox",
    "DjangoTransactionLog",
    "Rollback",
    "TransactionalBlock",
    "announce",
    "producer",
    "transactional",
]
