"""Who delivers what a producer has committed: the job, or the producer itself."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from checkback.exceptions import ConfigurationError
from checkback.installing import extra
from checkback.kafka.connecting import TransportName
from checkback.kafka.transport import TellingTransport, Transport
from checkback.listener import HalfMessage
from checkback.producing.scope import Delivery
from checkback.wire.protocol import Action, HalfPosition, Headers, Message, Topics


class DeliveryMode(StrEnum):
    """Who delivers."""

    JOB = "job"
    DIRECT = "direct"
    """The producer, by a lane; the job what it cannot."""


def delivery_mode(mode: DeliveryMode | str, transport: TransportName | Transport | str) -> DeliveryMode:
    """The mode of this name.

    Raises:
        ConfigurationError: there is none, or a producer on this transport cannot deliver.
    """
    if mode not in tuple(DeliveryMode):
        raise ConfigurationError(f"delivery is 'job' or 'direct', not {mode!r}.")
    if mode == DeliveryMode.DIRECT and transport != TransportName.CONFLUENT:
        raise ConfigurationError(f"delivery='direct' needs transport='confluent-kafka': {extra('fast')}.")
    return DeliveryMode(mode)


class DirectDelivery(Protocol):
    """What a producer does otherwise when it delivers itself (:mod:`checkback.producing.direct`)."""

    def write(
        self,
        wire: Headers,
        transaction_id: str,
        messages: Sequence[Message],
        write_half: Callable[[Headers], HalfPosition],
        *,
        numbered: bool = False,
    ) -> tuple[HalfPosition, str]:
        """Write a half message of these messages that names the lane; gives its place and the lane, empty for none."""

    def end(
        self, message: HalfMessage, action: Action, remark: str, lost: Callable[[BaseException], None]
    ) -> Delivery | None:
        """Say what became of a half message that names a lane. Does not wait."""

    def flush(self, seconds: float) -> None:
        """Wait until all that was committed is delivered, or left to the job, for at most ``seconds``."""

    def close(self, seconds: float) -> None:
        """Deliver what waits, for at most ``seconds``, and tell the job of the rest."""


def direct_delivery(
    transport: TellingTransport, bootstrap_servers: str, options: Mapping[str, Any], topics: Topics, group: str
) -> DirectDelivery:
    """Open a lane. Nothing of it is imported by who does not want it.

    Raises:
        ConfigurationError: Kafka does not allow it; the message says what to allow.
        KafkaUnreachableError: Kafka is away.
    """
    from checkback.producing.direct.direct import ByLane, ProducerPlace  # noqa: PLC0415  (see above)

    return ByLane(transport, ProducerPlace(bootstrap_servers, options, topics, group))
