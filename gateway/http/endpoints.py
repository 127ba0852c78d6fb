"""Check endpoints that clients announce over HTTP: check services ask these directly, no gateway in between."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from checkback.answering.advertising import refuse_unreachable
from checkback.exceptions import ConfigurationError, ProtocolError
from checkback.wire.checks import MAX_BATCH, Announcement
from checkback.wire.protocol import lawful_topic
from gateway.http.messages import JsonBody
from gateway.refusals import GatewayError, RefusalReason

_INSTANCE = re.compile(r"[a-zA-Z0-9._-]{1,64}")


def _topic(name: str) -> str:
    try:
        lawful_topic(name)
    except ProtocolError as error:
        raise ValueError(str(error)) from None
    return name


def _url(url: str) -> str:
    try:
        refuse_unreachable(url)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    return url


class EndpointBody(JsonBody):
    """Where check services ask, as docs/protocol.md has it."""

    url: Annotated[str, AfterValidator(_url)]
    """http:// or https://"""
    topics: Annotated[list[Annotated[str, AfterValidator(_topic)]], Field(min_length=1)] | None = None
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
