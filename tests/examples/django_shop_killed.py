"""Settings of the example in a process that dies while it pays, on the topics of a test."""

import os
import signal
from typing import Any

from django.db.backends.sqlite3.base import DatabaseWrapper

from examples.django_shop import settings
from examples.django_shop.settings import *  # noqa: F403  (settings are made so)

CHECKBACK = {**settings.CHECKBACK, "TOPIC_PREFIX": os.environ["SHOP_TOPIC_PREFIX"], "KEY": None}

_commit = DatabaseWrapper._commit
_MOMENT = os.environ.get("SHOP_DIES", "")


def _commit_and_die(self: Any) -> Any:
    if _MOMENT == "before the commit":
        os.kill(os.getpid(), signal.SIGKILL)
    done = _commit(self)
    if _MOMENT == "after the commit":
        os.kill(os.getpid(), signal.SIGKILL)
    return done


DatabaseWrapper._commit = _commit_and_die
