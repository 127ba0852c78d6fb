"""The class of the user's that decides about messages whose checks are used up."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from checkback import Decision, ExhaustedMessage
from checkback.exceptions import ConfigurationError
from state import Event, Rows
from streaming.stateful.policies import AskListener, fingerprint, on_exhausted
from tests.state.records import Driver, Half
from tests.state.small import POLICY

HERE = "tests.streaming.stateful.test_exhausted_policy"


class ByKey:
    """Does what the message's key says."""

    def decide(self, message: ExhaustedMessage) -> Decision:
        assert message.headers == [("a", b"1")]
        if message.key == b"raise":
            raise LookupError("cannot say")
        return Decision((message.key or b"").decode())


class Wordy:
    """Answers with something that is not a decision."""

    def decide(self, message: ExhaustedMessage) -> str:
        return f"perhaps {message.transaction_id}"


class Undecided:
    """Has no method of that name."""


class Needy:
    """Cannot be made without arguments."""

    def __init__(self, argument: str) -> None:
        self.argument = argument


def messages(*keys: bytes) -> Rows:
    driver = Driver(POLICY)
    driver.step(0, *(Half(at, f"tx-{at}", key=key, headers=HEADERS) for at, key in enumerate(keys)))
    return driver.segment.messages


HEADERS = '[{"key":"cb-id","value":"MQ=="},{"key":"a","value":"MQ=="}]'


@pytest.mark.parametrize(
    ("choice", "event"),
    [("park", Event.EXHAUSTED), ("commit", Event.EXHAUSTED_COMMIT), ("rollback", Event.EXHAUSTED_ROLLBACK)],
)
def test_a_word_is_the_same_for_all(choice: str, event: Event) -> None:
    assert on_exhausted(choice)(messages(b"x", b"y")).tolist() == [event] * 2


def test_a_listener_decides_each_message_also_after_the_way_to_a_worker() -> None:
    asked = pickle.loads(pickle.dumps(on_exhausted(f"{HERE}:ByKey")))  # noqa: S301  (our own bytes)
    assert isinstance(asked, AskListener)
    decided = asked(messages(b"commit", b"park", b"rollback")).tolist()
    assert decided == [Event.EXHAUSTED_COMMIT, Event.EXHAUSTED, Event.EXHAUSTED_ROLLBACK]


def test_a_listener_that_raises_parks_that_message_only() -> None:
    decided = on_exhausted(f"{HERE}:ByKey")(messages(b"commit", b"raise", b"what?"))
    assert decided.tolist() == [Event.EXHAUSTED_COMMIT, Event.EXHAUSTED, Event.EXHAUSTED]
    assert on_exhausted(f"{HERE}:Wordy")(messages(b"x")).tolist() == [Event.EXHAUSTED]


@pytest.mark.parametrize("path", ["no.such.module:Class", f"{HERE}:NoSuch", f"{HERE}:Undecided", f"{HERE}:Needy"])
def test_a_class_that_cannot_be_used_is_refused_by_name(path: str) -> None:
    with pytest.raises(ConfigurationError, match=r"transactions.on_exhausted: .*" + path.rpartition(":")[2]):
        on_exhausted(path)


def test_a_class_that_is_edited_while_the_job_runs_decides_as_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "edited_listener.py"
    text = "class Choice:\n    def decide(self, message):\n        return 'commit'\n"
    file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    decides = pickle.dumps(on_exhausted("edited_listener:Choice"))
    before = fingerprint("edited_listener:Choice")
    file.write_text(text.replace("commit", "park"))
    # as in a worker that begins now, and imports what the file says by then
    worker = [sys.executable, "-c", _WORKER, str(tmp_path)]
    said = subprocess.run(worker, input=decides, capture_output=True, check=True, timeout=60)
    assert said.stdout.decode().split() == [str(int(Event.EXHAUSTED_COMMIT))]
    assert fingerprint("edited_listener:Choice") == before, "what is written down is what decides"


_WORKER = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
from tests.streaming.stateful.test_exhausted_policy import messages
print(*pickle.loads(sys.stdin.buffer.read())(messages(b"x")).tolist())
"""
