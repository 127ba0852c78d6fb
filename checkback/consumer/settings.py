"""How a consumer works: everything that may be set, with its default."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar

from checkback.exceptions import ConfigurationError

RETRY_LEVELS = (1.0, 5.0, 10.0, 30.0, *(60.0 * minutes for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)))
"""RocketMQ's: 1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h; in seconds."""

_LONGEST_LEVEL = 7 * 86_400.0
_HALF_AN_HOUR_SECONDS = 1_800


class StartAt(StrEnum):
    """Where a group begins in a topic that it has never read. Once it has, this says nothing."""

    LAST = "last"
    """Behind the last message there is."""
    FIRST = "first"
    """At the first message there is."""
    TIMESTAMP = "timestamp"
    """At the first message from ``start_time`` on; without such a time, half an hour ago."""


class WhenOffsetIsGone(StrEnum):
    """What to do when there is no message at the stored offset any more, or Kafka has forgotten the offset."""

    EARLIEST = "earliest"
    """Continue at the first message there is; said in the log as an error."""
    LATEST = "latest"
    """Continue behind the last; likewise."""
    STOP = "stop"
    """Stop the consumer: :meth:`PushConsumer.raise_if_dead` says why."""


class Mode(StrEnum):
    """Who gets a message."""

    CLUSTERING = "clustering"
    """One consumer of the group; offsets are stored at the brokers."""
    BROADCASTING = "broadcasting"
    """Each consumer; offsets are stored in a file of its own, and a message that fails is not tried again."""


class Order(StrEnum):
    """Which messages wait for one another."""

    NONE = "none"
    PARTITION = "partition"
    """Those of a partition come one after the other. One that fails holds up the ones behind it."""
    KEY = "key"
    """Those of a key come one after the other. One that fails holds up its key; messages without a key do not wait."""


E = TypeVar("E", bound=StrEnum)


class _Choice(Generic[E]):
    """A field that holds one of several options; it is set to one, or to its value (``"first"``)."""

    def __init__(self, default: E) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, settings: object, owner: type) -> E:
        option: E = self._default if settings is None else settings.__dict__[self._name]
        return option

    def __set__(self, settings: object, value: E | str) -> None:
        kind = type(self._default)
        try:
            settings.__dict__[self._name] = kind(value)
        except ValueError:
            values = ", ".join(repr(str(one)) for one in kind)
            raise ConfigurationError(f"{self._name} must be {kind.__name__}, one of {values}, not {value!r}.") from None


_NATURAL = ("concurrency", "max_span", "max_messages", "max_bytes", "retry_partitions", "first_retry_level")
_WHOLE = frozenset({*_NATURAL, "max_reconsume_times", "max_deaths", "batch"})


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings:
    """Settings of a :class:`PushConsumer`. Times in seconds.

    Raises:
        ConfigurationError: one of them makes no sense.
    """

    concurrency: int = 20
    """Messages that listeners have in hand at once: threads, or coroutines of an asynchronous consumer."""
    batch: int | None = None
    """The listener gets a list of up to so many messages of one partition (in order by key: of one key); None: one
    message by itself."""
    mode: _Choice[Mode] = _Choice(Mode.CLUSTERING)
    order: _Choice[Order] = _Choice(Order.NONE)
    tag_header: str = "tags"
    """Name of the header whose value is a message's tag."""

    start_at: _Choice[StartAt] = _Choice(StartAt.LAST)
    start_time: datetime | None = None
    """For ``StartAt.TIMESTAMP``, with a time zone; None: half an hour before the consumer was made."""
    when_offset_is_gone: _Choice[WhenOffsetIsGone] = _Choice(WhenOffsetIsGone.EARLIEST)
    hear_resets: bool = True
    """Whether ``checkback offsets reset`` may set the group to other offsets while it runs."""
    offset_file: Path | str | None = None
    """Where a broadcasting consumer stores its offsets; None: ``~/.checkback/offsets/<group>.json``."""

    max_span: int = 10_000
    """Offsets between a partition's oldest message under way and the newest: reading pauses there."""
    max_messages: int = 1_000
    """Messages of one partition in memory: reading of it pauses there, a fetch more or less."""
    max_bytes: int = 64 << 20
    """Keys, values and headers in memory, of all partitions together; each may have its share.

    Without what the Kafka client has fetched ahead.
    """

    store_interval: float = 5.0
    finish_wait: float = 5.0
    """When partitions are taken away, and when it is closed: messages in a listener's hands may take so long to end."""
    listener_timeout: float = 900.0
    """A listener that takes longer is given up: its message is sent back, its thread is replaced. Not with an order."""

    max_reconsume_times: int = 16
    """How often a message is tried again before it goes to the dead letters; 0: never."""
    retry_levels: Sequence[float] = RETRY_LEVELS
    """Pauses before a message is tried again, the next one each time, at most 7 days."""
    first_retry_level: int = 3
    """Number, from 1, of the level of the first retry."""
    retry_partitions: int = 1
    """Of ``cb.retry.<group>``, where it is to be made. The group's members share them and all others out evenly: with
    more of them, those of your topics may be shared out less evenly."""
    suspend: float = 1.0
    """With an order: for so long a partition or a key pauses before its failed message is tried again."""
    retry_here: float = 5.0
    """When sending back fails, the message is tried here again after this pause."""
    max_deaths: int = 3
    """A message in whose midst the process has died so often goes to the dead letters; 0: never."""

    def __post_init__(self) -> None:
        for name in _NATURAL:
            if self._number(name) < 1:
                raise ConfigurationError(f"{name} must be 1 or more, not {getattr(self, name)}.")
        for name in ("max_reconsume_times", "max_deaths", "finish_wait", "suspend", "retry_here"):
            if self._number(name) < 0:
                raise ConfigurationError(f"{name} must not be negative, as {getattr(self, name)} is.")
        for name in ("store_interval", "listener_timeout"):
            if self._number(name) <= 0:
                raise ConfigurationError(f"{name} must be more than 0 s, not {getattr(self, name)}.")
        if self.batch is not None and self._number("batch") < 1:
            raise ConfigurationError(f"batch must be 1 or more, or None, not {self.batch}.")
        self._check_levels()
        self._check_kinds()

    def _check_kinds(self) -> None:
        if self.start_time is not None and (
            not isinstance(self.start_time, datetime) or self.start_time.tzinfo is None
        ):
            raise ConfigurationError("start_time must be a datetime with a time zone: datetime(..., tzinfo=UTC).")
        if not isinstance(self.tag_header, str):
            raise ConfigurationError(f"tag_header must be the name of a header, not {self.tag_header!r}.")
        if self.offset_file is not None:
            try:
                object.__setattr__(self, "offset_file", Path(self.offset_file))
            except TypeError:
                raise ConfigurationError(f"offset_file must be a Path, or text, not {self.offset_file!r}.") from None

    def _check_levels(self) -> None:
        levels = list(self.retry_levels) if isinstance(self.retry_levels, Sequence) else []
        if not levels or not all(isinstance(one, int | float) and 0 <= one <= _LONGEST_LEVEL for one in levels):
            raise ConfigurationError("retry_levels must be pauses of 0 to 604,800 (s, 7 days), one at least.")
        if 1 < len(levels) < self.first_retry_level:  # one alone is every pause; of several the last one would be
            raise ConfigurationError(
                f"first_retry_level is {self.first_retry_level}, and there are {len(levels)} retry_levels: set both."
            )

    def _number(self, name: str) -> float:
        given = getattr(self, name)
        wanted = int if name in _WHOLE else int | float
        if isinstance(given, bool) or not isinstance(given, wanted):
            raise ConfigurationError(f"{name} must be a {'whole ' if name in _WHOLE else ''}number, not {given!r}.")
        return float(given)

    def retry_delay(self, tries: int) -> float:
        """Seconds until a message is tried again that was tried ``tries`` times before it has failed now."""
        level = self.first_retry_level + tries
        return self.retry_levels[min(level, len(self.retry_levels)) - 1]

    def start_ms(self, now: datetime) -> int:
        """The time of ``StartAt.TIMESTAMP``, in ms since 1970."""
        if self.start_time is None:
            return round((now.timestamp() - _HALF_AN_HOUR_SECONDS) * 1000)
        return round(self.start_time.astimezone(UTC).timestamp() * 1000)
