"""How JSON spells messages, checks and endpoints: text, or base64 where bytes are no text. No I/O."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from checkback.answering.advertising import refuse_unreachable
from checkback.exceptions import CheckbackError
from checkback.wire.checks import MAX_BATCH, Announcement, CheckRequest
from checkback.wire.limits import MAX_HEADERS
from checkback.wire.message_json import from_base64, to_base64
from checkback.wire.protocol import MAX_COUNT_DIGITS, MAX_MS_DIGITS, Message, TransactionOptions, lawful_topic
from gateway.refusals import GatewayError, RefusalReason

MOST_MESSAGES = 10_000
"""Of one transaction."""
_PAIR = 2
_INSTANCE = re.compile(r"[a-zA-Z0-9._-]{1,64}")
HEADER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "value": {"type": ["string", "null"], "description": "text; null in checks only"},
        "value_base64": {"type": "string", "contentEncoding": "base64", "description": "in place of value"},
    },
    "required": ["name"],
    "additionalProperties": False,
}
_HEADERS_SCHEMA: dict[str, Any] = {
    "description": "name and text of each; a name may come twice, but in an object",
    "anyOf": [
        {"type": "object", "additionalProperties": {"type": "string"}},
        {
            "type": "array",
            "items": {
                "anyOf": [
                    {"type": "array", "items": {"type": "string"}, "minItems": _PAIR, "maxItems": _PAIR},
                    HEADER_SCHEMA,
                ]
            },
        },
    ],
}


def _decoded(said: object) -> bytes:
    try:
        found = from_base64(said) if isinstance(said, str) else None
    except ValueError:
        found = None
    if found is None:
        raise ValueError("must be text in base64 (RFC 4648, section 4, with padding)")
    return found


def _headers(said: object) -> tuple[tuple[str, bytes], ...]:
    pairs = list(said.items()) if isinstance(said, Mapping) else said
    if not isinstance(pairs, list):
        raise ValueError('must be {"name": "text", ...} or [["name", "text"], ...]')  # noqa: TRY004  (pydantic takes it)
    if len(pairs) > MAX_HEADERS:
        raise ValueError(f"must be at most {MAX_HEADERS:,}")
    return tuple(_header(pair) for pair in pairs)


def _header(said: object) -> tuple[str, bytes]:
    if isinstance(said, Mapping):
        wrong = said.keys() - {"name", "value", "value_base64"}
        if wrong or ("value" in said) == ("value_base64" in said):
            raise ValueError("each header as an object has name, and value or value_base64, and nothing else")
        said = [said.get("name"), _decoded(said["value_base64"]) if "value_base64" in said else said["value"]]
    if not isinstance(said, list | tuple) or len(said) != _PAIR:
        raise ValueError("each header is a list of two texts, or an object")
    name, value = said
    if not isinstance(name, str) or not isinstance(value, str | bytes):
        raise ValueError("a header's name and value must be text")  # noqa: TRY004  (pydantic takes it)
    return name, value.encode() if isinstance(value, str) else value


Base64 = Annotated[
    bytes | None, PlainValidator(_decoded), WithJsonSchema({"type": "string", "contentEncoding": "base64"})
]
HeaderList = Annotated[tuple[tuple[str, bytes], ...], PlainValidator(_headers), WithJsonSchema(_HEADERS_SCHEMA)]
_Ms = Annotated[int, Field(ge=0, lt=10**MAX_MS_DIGITS)]
_Count = Annotated[int, Field(ge=0, lt=10**MAX_COUNT_DIGITS)]


class JsonBody(BaseModel):
    """What a client sends: what nobody knows is refused, and nothing is guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class MessageBody(JsonBody):
    """A message as consumers get it."""

    topic: str
    """The real topic."""
    key: str | None = None
    """By default it decides the partition."""
    key_base64: Base64 = None
    """In place of key."""
    value: str | None = None
    """Text, or null: a tombstone, which needs a key."""
    value_base64: Base64 = None
    """In place of value."""
    headers: HeaderList = ()
    partition: _Count | None = None
    """Of the real topic."""

    @model_validator(mode="after")
    def _one_spelling(self) -> Self:
        given = self.model_fields_set
        if {"key", "key_base64"} <= given:
            raise ValueError("say key or key_base64, not both")
        if ("value" in given) == ("value_base64" in given):
            raise ValueError("say value or value_base64; value may be null")
        if self.value is None and self.value_base64 is None and self.key is None and self.key_base64 is None:
            raise ValueError("a message whose value is null is a tombstone, and needs a key")
        return self

    def message(self, most_bytes: int) -> Message:
        """What it says.

        Raises:
            GatewayError: its value has more than ``most_bytes``.
        """
        value = self.value_base64 if self.value is None else self.value.encode()
        key = self.key_base64 if self.key is None else self.key.encode()
        if len(value or b"") > most_bytes:
            raise GatewayError(
                RefusalReason.TOO_LARGE, f"A value has more than {most_bytes:,} bytes (gateway.max_body)."
            )
        return Message(self.topic, value, key, list(self.headers), self.partition)


class TransactionBody(JsonBody):
    """A half message to be posted."""

    message: MessageBody | None = None
    """The only one."""
    messages: Annotated[list[MessageBody], Field(max_length=MOST_MESSAGES)] = Field(default=[], min_length=1)
    """Several, which are delivered together or not at all; in place of message."""
    check_immunity_ms: _Ms | None = None
    """No check for so long; else the job's transactions.timeout."""
    check_max: _Count | None = None
    """Checks without a verdict before it is parked; 0: it is not checked."""
    deliver_at_ms: _Ms | None = None
    """Not delivered before this time, ms since 1970."""

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if (self.message is None) == (not self.messages):
            raise ValueError("say message or messages, one of the two")
        return self

    def all_messages(self, most_bytes: int) -> list[Message]:
        """One or several. Raises as :meth:`MessageBody.message`."""
        bodies = self.messages if self.message is None else [self.message]
        return [body.message(most_bytes) for body in bodies]

    def options(self) -> TransactionOptions:
        """What it wants otherwise than the job's settings say."""
        return TransactionOptions(self.check_immunity_ms, self.check_max, self.deliver_at_ms)


class SendBody(JsonBody):
    """A message without a transaction."""

    message: MessageBody
    deliver_at_ms: _Ms | None = None
    """Not delivered before this time, ms since 1970; without it it is written to its topic at once."""


class EndBody(JsonBody):
    """What may be said of an end."""

    remark: str = ""
    """For people; 512 characters of it are kept."""


def _by(check: Callable[[str], None]) -> AfterValidator:
    """Text that ``check`` raises no error of ours for."""

    def checked(text: str) -> str:
        try:
            check(text)
        except CheckbackError as error:
            raise ValueError(str(error)) from None
        return text

    return AfterValidator(checked)


class EndpointBody(JsonBody):
    """Where check services ask, as docs/protocol.md has it."""

    url: Annotated[str, _by(refuse_unreachable)]
    """http:// or https://"""
    topics: Annotated[list[Annotated[str, _by(lawful_topic)]], Field(min_length=1)] | None = None
    """Real topics that it answers for; null: all."""
    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)] = 1
    """So many checks it takes in one request."""

    def announcement(self, group: str, instance: str, now_ms: int) -> Announcement:
        """As a record of ``cb.producers`` says it."""
        topics = None if self.topics is None else tuple(self.topics)
        return Announcement(group, instance, self.url, now_ms, self.batch, topics)


def lawful_instance(instance: str) -> str:
    """The name of an endpoint within its group.

    Raises:
        GatewayError: it is not one.
    """
    if not _INSTANCE.fullmatch(instance):
        raise GatewayError(RefusalReason.REQUEST, "An endpoint's name has 1 to 64 of a-z A-Z 0-9 . _ -")
    return instance


def check_json(check: CheckRequest, ticket: str) -> dict[str, Any]:
    """A question to a client: ``transaction`` is what it answers with."""
    messages = list(check.messages)
    if not messages:
        messages = [Message(check.topic, check.value, check.key, check.headers)]
    return {
        "transaction": ticket,
        "id": check.transaction_id,
        "group": check.group,
        "topic": check.topic,
        "messages": [message_json(message, left_out=check.left_out) for message in messages],
        "attempt": check.attempt,
        "check_max": check.check_max,
        "ingested_ms": check.ingested_ms,
        **({"left_out": check.left_out} if check.left_out else {}),
    }


def message_json(message: Message, *, left_out: int = 0) -> dict[str, Any]:
    """A message as :class:`MessageBody` takes it; without its value if that was left out."""
    return {
        "topic": message.topic,
        **_spelled("key", message.key),
        **({} if left_out else _spelled("value", message.value)),
        "headers": [{"name": name, **_spelled("value", value)} for name, value in message.headers],
        **({} if message.partition is None else {"partition": message.partition}),
    }


def _spelled(name: str, content: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if content is None else content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": to_base64(content)}
