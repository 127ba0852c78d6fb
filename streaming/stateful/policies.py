"""From settings to the policy of the state machine, and the class of a user that decides when checks are used up."""

import functools
import hashlib
import importlib
import inspect
import logging
import operator
import sys
import types
from dataclasses import dataclass

import numpy as np

from checkback.exceptions import ConfigurationError
from checkback.wire.exhausted import Decision, ExhaustedListener, ExhaustedMessage
from conf import TransactionSettings
from state import Always, Event, OnExhausted, Policy, Rows
from state.table import EventCodes
from streaming.batch.headers import application_headers

_LOGGER = logging.getLogger(__name__)

_EVENTS = {
    Decision.PARK: Event.EXHAUSTED,
    Decision.COMMIT: Event.EXHAUSTED_COMMIT,
    Decision.ROLLBACK: Event.EXHAUSTED_ROLLBACK,
}


def on_exhausted(choice: str) -> OnExhausted:
    """The setting ``transactions.on_exhausted``: ``park``, ``commit``, ``rollback`` or ``module:Class``.

    Raises:
        ConfigurationError: there is no such class, it cannot be made without arguments, or has no ``decide``.
    """
    if choice in list(Decision):
        return Always(_EVENTS[Decision(choice)])
    _load(choice)
    return AskListener(choice, _read(choice))


def fingerprint(choice: str) -> str:
    """What tells the class from an edited one under the same name; empty for ``park``, ``commit`` and ``rollback``.

    A hash of the source of the module that it is in, or its name where no source can be had. What the module imports is
    not in it.

    Raises:
        ConfigurationError: see :func:`on_exhausted`.
    """
    if choice in list(Decision):
        return ""
    code = _read(choice)
    return hashlib.sha256(code.source.encode()).hexdigest() if code else choice


@dataclass(frozen=True)
class ListenerCode:
    """The module that a listener's class is in, as it was when the driver read it.

    Workers run this. Each imports what it needs when it begins, so a file that is edited while the job runs would
    decide some batches in one way and, when they are run again, in another.
    """

    module: str
    package: str
    file: str
    source: str
    name: str
    """Of the class, in the module."""

    def listener(self) -> ExhaustedListener:
        """The listener, made once in a process."""
        return _made(self)


@dataclass(frozen=True)
class AskListener:
    """Asks the user's listener about each message; parks what it raises on, or does not decide."""

    path: str
    code: ListenerCode | None
    """None where no source can be had: the class is imported by its name then."""

    def __call__(self, messages: Rows) -> EventCodes:
        """uint8[n] events, one for each message."""
        listener = self.code.listener() if self.code else _load(self.path)
        decided = (_decision(listener, messages, row) for row in range(messages.count))
        return np.fromiter((_EVENTS[decision] for decision in decided), np.uint8, messages.count)


def _decision(listener: ExhaustedListener, messages: Rows, row: int) -> Decision:
    transaction_id = str(messages["transaction_id"][row])
    try:
        message = ExhaustedMessage(
            transaction_id=transaction_id,
            group=messages["group"][row],
            topic=messages["topic"][row],
            key=messages["key"][row],
            value=messages["value"][row],
            headers=application_headers(messages["headers"][row]),
            attempts=int(messages["attempts"][row]),
            ingested_ms=int(messages["ingested_ms"][row]),
            left_out=max(0, int(messages["left_out"][row])),
        )
        return Decision(listener.decide(message))
    except Exception:  # whatever the user's code raises
        _LOGGER.exception("%s did not decide transaction %s: it is parked", type(listener).__name__, transaction_id)
        return Decision.PARK


@functools.cache
def _load(path: str) -> ExhaustedListener:
    module, _, name = path.partition(":")
    try:
        listener = getattr(importlib.import_module(module), name)()
    except Exception as error:
        raise ConfigurationError(f"transactions.on_exhausted: {path} cannot be used: {error!r}.") from error
    if not isinstance(listener, ExhaustedListener):
        raise ConfigurationError(f"transactions.on_exhausted: {path} has no method decide(message).")
    return listener


@functools.cache
def _read(path: str) -> ListenerCode | None:
    """Read once in a process: what a start checks, writes down and hands to workers is one text."""
    found = type(_load(path))
    module = sys.modules[found.__module__]
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):
        return None
    package, file = module.__package__ or "", module.__file__ or found.__module__
    return ListenerCode(found.__module__, package, file, source, found.__qualname__)


@functools.cache
def _made(code: ListenerCode) -> ExhaustedListener:
    module = types.ModuleType(f"{code.module} as the job began")
    module.__package__, module.__file__ = code.package, code.file
    sys.modules[module.__name__] = module  # dataclasses, for one, look for it there
    exec(compile(code.source, code.file, "exec"), module.__dict__)  # noqa: S102  (the user's own)
    made: ExhaustedListener = operator.attrgetter(code.name)(module)()
    return made


def policy_of(given: TransactionSettings, *, tables: bool = False, retry_prefix: str = "") -> Policy:
    """The rules' numbers and choices, as the settings give them; ``tables``: whether any message is for one.

    Raises:
        ConfigurationError: the class that ``on_exhausted`` names cannot be used.
    """
    return Policy(
        transaction_timeout_ms=given.timeout,
        check_interval_ms=given.check_interval,
        check_interval_max_ms=given.check_interval_max,
        check_max=given.check_max,
        on_exhausted=on_exhausted(given.on_exhausted),
        late_end_needs_check=given.late_end_transaction == "require_check",
        check_answer_ttl_ms=given.check_answer_ttl,
        unreachable_backoff_max_ms=given.unreachable_backoff_max,
        age_limit_ms=given.age_limit,
        delay_max_ms=given.delay_max,
        parked_ttl_ms=given.parked_ttl,
        early_op_ttl_ms=given.early_op_ttl,
        early_op_max=given.early_op_max,
        tables=tables,
        timer_slack_ms=given.timer_slack,
        segment_size=given.segment_size,
        retry_prefix=retry_prefix,
    )
