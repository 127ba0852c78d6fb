"""The example in a process that dies while it pays: ``SHOP_DIES`` says when."""

import os
import signal
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session

from examples.fastapi_shop.web import app

__all__ = ["app"]

_MOMENT = os.environ.get("SHOP_DIES", "")


def _die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if _MOMENT == "before the commit":
    event.listen(Session, "before_commit", _die)
if _MOMENT == "after the commit":
    event.listen(Session, "after_commit", _die)
