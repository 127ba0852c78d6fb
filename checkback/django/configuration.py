"""``CHECKBACK = {...}`` in settings.py, read and judged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

from django.apps import apps
from django.conf import settings
from django.core.signals import setting_changed

from checkback.answering.advertising import refuse_unreachable
from checkback.answering.app import keys_of
from checkback.dbapi.states import refuse_no_age
from checkback.exceptions import ConfigurationError, ProtocolError
from checkback.wire.protocol import Topics, lawful_group
from checkback.wire.signed_records import SigningKey

T = TypeVar("T")

APP = "checkback.django"
ASYNC_VIEW = (
    f"The check view of {APP}",
    "while one check runs, other checks and the ORM fail. Serve it with threads or ASGI.",
)
"""What it is that greenlets do not run, and why."""

_TEXT, _NUMBER, _NAMES, _OPTIONS = "a text", "a whole number", "a list of texts", "a dictionary"
_ID_AND_SECRET = 2
_AGE, _TEXTS = "a datetime.timedelta", "a text or a list of texts"


@dataclass(frozen=True, kw_only=True)
class DjangoSettings:
    """What ``CHECKBACK`` in settings.py may have, each under its name in capitals.

    Raises:
        ConfigurationError: one of them makes no sense.
    """

    bootstrap_servers: str
    """Kafka's ``host:port``, several with commas."""
    group: str
    """The producer group: all processes of this project."""
    url: str | None = None
    """Where the job reaches ``include("checkback.django.urls")``; it is announced. None: the job's settings name it."""
    key: str | tuple[str, ...] | None = field(default=None, repr=False)
    """The group's secret, as ``checks.keys`` of the job has it, or several of which it has one; without one anybody may
    ask."""
    signing_key: tuple[str, ...] | None = field(default=None, repr=False)
    """Id and secret of the key with which messages and announcements are signed, where an access policy wants that.
    Django hides what has KEY in its name from its error pages."""
    databases: tuple[str, ...] = ("default",)
    """The databases, by their alias, in which ``transactional`` may work: a check asks all of them."""
    lock_timeout_ms: int = 1_000
    """How long a check waits for a transaction that is still running; see :class:`DjangoTransactionLog`."""
    check_threads: int = 8
    """Checks that a process answers at once, each on a database connection of its own, whatever its server."""
    prune_after: timedelta | None = None
    """The age at which rows of the transaction log go by themselves; None: ``manage.py checkback_prune`` alone."""
    answers_for: tuple[str, ...] | None = None
    """The topics that the endpoint is asked about; None: all."""
    topic_prefix: str = "cb."
    """Of Checkback's own topics."""
    delivery: str = "job"
    """``"direct"``: this process delivers what it has committed itself."""
    missing_topic: str = "warn"
    half_timeout_ms: int = 10_000
    transport: str = "kafka-python"
    kafka_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further options of the producer's client, under the names of ``transport``: security and the like."""
    consumer_kafka_options: Mapping[str, Any] | None = field(default=None, repr=False)
    """The same for consumers, whose client is librdkafka whatever the transport; None: ``kafka_options``."""
    endpoint_kafka_options: Mapping[str, Any] | None = field(default=None, repr=False)
    """The same for the announcement, whose client is kafka-python whatever the transport; None: ``kafka_options``."""

    @property
    def topics(self) -> Topics:
        """Checkback's own."""
        return Topics(self.topic_prefix)

    @property
    def signing(self) -> SigningKey | None:
        """Of ``signing_key``."""
        return None if self.signing_key is None else _signing_key(self.signing_key)

    @property
    def consumer_options(self) -> Mapping[str, Any]:
        """Of consumers' clients."""
        return self.kafka_options if self.consumer_kafka_options is None else self.consumer_kafka_options

    @property
    def announcer_options(self) -> Mapping[str, Any]:
        """Of the announcement's client."""
        return self.kafka_options if self.endpoint_kafka_options is None else self.endpoint_kafka_options

    def __post_init__(self) -> None:
        try:
            lawful_group(self.group)
        except ProtocolError as error:
            raise ConfigurationError(f"CHECKBACK['GROUP']: {error}") from error
        if not self.bootstrap_servers:
            raise ConfigurationError("CHECKBACK['BOOTSTRAP_SERVERS'] is empty: give Kafka's host:port.")
        _judge("KEY", keys_of, self.key)
        _judge("SIGNING_KEY", _signing_key, self.signing_key)
        for name, number in (("LOCK_TIMEOUT_MS", self.lock_timeout_ms), ("CHECK_THREADS", self.check_threads)):
            if number < 1:
                raise ConfigurationError(f"CHECKBACK[{name!r}] is {number}, must be at least 1.")
        if not self.databases:
            raise ConfigurationError("CHECKBACK['DATABASES'] is empty: name one, or leave it out for 'default'.")
        _judge("PRUNE_AFTER", refuse_no_age, self.prune_after)
        _judge("URL", refuse_unreachable, self.url)


def _judge(name: str, refuse: Callable[[T], object], given: T | None) -> None:
    try:
        if given is not None:
            refuse(given)
    except ConfigurationError as error:
        raise ConfigurationError(f"CHECKBACK[{name!r}]: {error}") from error


def _signing_key(given: tuple[str, ...]) -> SigningKey:
    if len(given) != _ID_AND_SECRET:
        raise ConfigurationError("it must be a pair of texts: the key's id and its secret.")
    return SigningKey(*given)


_KINDS = {
    **dict.fromkeys(("bootstrap_servers", "group", "url", "topic_prefix"), _TEXT),
    "key": _TEXTS,
    **dict.fromkeys(("delivery", "missing_topic", "transport"), _TEXT),
    **dict.fromkeys(("lock_timeout_ms", "check_threads", "half_timeout_ms"), _NUMBER),
    **dict.fromkeys(("databases", "answers_for", "signing_key"), _NAMES),
    "prune_after": _AGE,
    **dict.fromkeys(("kafka_options", "consumer_kafka_options", "endpoint_kafka_options"), _OPTIONS),
}
_NEEDED = ("bootstrap_servers", "group")
_MAY_BE_NONE = {
    *("URL", "KEY", "SIGNING_KEY", "ANSWERS_FOR", "CONSUMER_KAFKA_OPTIONS", "ENDPOINT_KAFKA_OPTIONS", "PRUNE_AFTER")
}


@cache
def configuration() -> DjangoSettings:
    """What settings.py says.

    Raises:
        ConfigurationError: a key is unknown, missing or wrong, or the app is not installed.
    """
    if not apps.is_installed(APP):
        raise ConfigurationError(f"Add {APP!r} to INSTALLED_APPS in settings.py, then run 'manage.py migrate'.")
    given = getattr(settings, "CHECKBACK", None)
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            "settings.py needs CHECKBACK = {'BOOTSTRAP_SERVERS': 'host:port', 'GROUP': '...'}: docs/django.md has all."
        )
    known = {one.name.upper(): one.name for one in fields(DjangoSettings)}
    unknown = sorted(str(key) for key in given if key not in known)
    if unknown:
        raise ConfigurationError(f"CHECKBACK has no key {', '.join(unknown)}; there are {', '.join(sorted(known))}.")
    missing = [name.upper() for name in _NEEDED if name.upper() not in given]
    if missing:
        raise ConfigurationError(f"CHECKBACK in settings.py lacks {' and '.join(missing)}.")
    return DjangoSettings(**{known[key]: _judged(key, _KINDS[known[key]], value) for key, value in given.items()})


def _judged(key: str, kind: str, value: Any) -> Any:
    if value is None and key in _MAY_BE_NONE:
        return None
    fits = {
        _TEXT: isinstance(value, str),
        _NUMBER: type(value) is int,
        _NAMES: _are_texts(value),
        _TEXTS: isinstance(value, str) or _are_texts(value),
        _OPTIONS: isinstance(value, Mapping),
        _AGE: isinstance(value, timedelta),
    }[kind]
    if not fits:
        raise ConfigurationError(f"CHECKBACK[{key!r}] must be {kind}, not {type(value).__name__}.")
    return tuple(value) if isinstance(value, list) else value


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


def _changed(*, setting: str, **_: Any) -> None:
    if setting in {"CHECKBACK", "INSTALLED_APPS"}:  # override_settings in a test
        configuration.cache_clear()


setting_changed.connect(_changed)
