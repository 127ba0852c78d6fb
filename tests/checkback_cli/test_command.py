"""The script ``checkback``, until the command line has been imported."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import checkback.__main__
import checkback_command

Handler = Callable[[int, FrameType | None], Any] | int | None


@pytest.mark.parametrize(
    ("at_start", "while_importing"),
    [(signal.default_int_handler, signal.SIG_DFL), (signal.SIG_IGN, signal.SIG_IGN)],  # ignored: begun with "&"
)
def test_ctrl_c_ends_an_import_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, at_start: Handler, while_importing: Handler
) -> None:
    seen: list[Handler] = []

    def look() -> None:
        seen.append(signal.getsignal(signal.SIGINT))

    def command() -> Callable[[], None]:
        look()
        return look

    monkeypatch.setattr(checkback.__main__, "command", command)
    before = signal.signal(signal.SIGINT, at_start)
    try:
        checkback_command.main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [while_importing, at_start]
