"""Half messages that are sent again at the other gateway when one does not answer, and ended at either."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum

from checkback import HalfMessage, Message
from checkback.exceptions import CheckbackError
from torture.effects.strike import Watch
from torture.gateways.orders import OrderBooks, half_of, name_of
from torture.gateways.schedule import GATEWAYS
from torture.gateways.steps import Step

ATTEMPTS = 3
"""As RocketMQ's clients have it."""
_SLOW_OFTEN = 0.03
_SLOW_SECONDS = (2.5, 9.0)
"""So long some local transactions take: they are asked about meanwhile."""
_FORGED_OFTEN = 0.3


class NoAnswerError(CheckbackError):
    """A gateway said nothing in time, or that nobody knows, or is not there."""

    retriable = True


class RefusedError(Exception):
    """A gateway refused what is in order: no fault explains that."""


class End(StrEnum):
    """What a client says of a transaction."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"


class GatewayProducer(ABC):
    """What a shop sends with; of one thread."""

    def __init__(self, books: OrderBooks, watch: Watch, seed: int) -> None:
        self._books = books
        self._watch = watch
        self._chance = random.Random(seed)  # noqa: S311  (dice, no secret)
        self._ticket = ""

    def prepare(self, message: Message) -> HalfMessage:
        """See :class:`torture.shop.Producing`."""
        return self.prepare_several([message])

    def prepare_several(self, messages: Sequence[Message]) -> HalfMessage:
        """1. Send it to one gateway.  2. To the other one, as the same.  3. To the first again.

        Raises:
            NoAnswerError: none of them answered. It may have been written thrice.
        """
        name = name_of(messages[0].headers)
        first = self._chance.randrange(GATEWAYS)
        for attempt in range(ATTEMPTS):
            if attempt:
                self._watch(Step.UNANSWERED)
                self._books.note_sent_again(name)
            try:
                self._ticket = self._post((first + attempt) % GATEWAYS, name, messages)
            except NoAnswerError:
                continue
            if attempt:
                self._watch(Step.SENT_AGAIN)
            self._watch(Step.POSTED)
            if self._chance.random() < _SLOW_OFTEN:
                time.sleep(self._chance.uniform(*_SLOW_SECONDS))
            return half_of(name, messages)
        raise NoAnswerError(f"no gateway has answered about {name}")

    def commit(self, half: HalfMessage) -> None:
        """At either of them; when none answers a check decides."""
        self._watch(Step.COMMITTED)
        self._end(half, self._ticket, End.COMMIT)

    def rollback(self, half: HalfMessage) -> None:
        """Likewise; now and then somebody forges a commit before, which no gateway may take."""
        if self._chance.random() < _FORGED_OFTEN:
            self._end(half, _forged(self._ticket), End.COMMIT)
        self._end(half, self._ticket, End.ROLLBACK)

    def _end(self, half: HalfMessage, ticket: str, end: End) -> None:
        first = self._chance.randrange(GATEWAYS)
        for attempt in range(GATEWAYS):
            try:
                self._say((first + attempt) % GATEWAYS, half.topic, ticket, end)
            except NoAnswerError:
                continue
            return

    @abstractmethod
    def _post(self, gateway: int, name: str, messages: Sequence[Message]) -> str:
        """Send a half message to one of the gateways; gives its transaction id.

        Raises:
            NoAnswerError: it has not answered, or not what became of it.
        """

    @abstractmethod
    def _say(self, gateway: int, topic: str, ticket: str, end: End) -> None:
        """End a transaction at one of the gateways; it is refused when it was forged. Raises as :meth:`_post`."""


def _forged(ticket: str) -> str:
    body, _, code = ticket.rpartition(".")
    return f"{body}.{'A' if code[0] != 'A' else 'B'}{code[1:]}"
