"""The route to a gateway: the address at which a client has found it, whatever that is."""

from collections import OrderedDict

from gateway.rocketmq.streams import ClientName
from gateway.rocketmq.v2 import definition_pb2 as v2

_MOST = 100_000
MESSAGE_TYPES = (v2.NORMAL, v2.FIFO, v2.DELAY, v2.TRANSACTION)


class ClientRoutes:
    """Gives each client's own address back, and in another spelling when it has lost its stream.

    Python's client opens a stream to an address that is new to it, and after a restart of the gateway to no other, for
    minutes. A client that asks again and has no stream still gets the other spelling of the same address; one that has
    a stream gets what it got before.
    """

    def __init__(self) -> None:
        self._other: OrderedDict[ClientName, bool] = OrderedDict()
        """By client: whether it got the other spelling last."""

    def answer(
        self, topic: v2.Resource, asked: v2.Endpoints, client: ClientName, *, has_stream: bool
    ) -> v2.MessageQueue:
        """One queue: what lies where in Kafka is nothing that these clients have to know."""
        known = self._other.pop(client, None)
        other = bool(known) if has_stream or known is None else not known
        self._other[client] = other
        if len(self._other) > _MOST:
            self._other.popitem(last=False)
        return v2.MessageQueue(
            topic=topic,
            id=0,
            permission=v2.READ_WRITE,
            broker=v2.Broker(name="checkback", id=0, endpoints=_respelled(asked) if other else asked),
            accept_message_types=MESSAGE_TYPES,
        )


def _respelled(asked: v2.Endpoints) -> v2.Endpoints:
    if asked.scheme == v2.IPv4:
        return v2.Endpoints(scheme=v2.DOMAIN_NAME, addresses=asked.addresses)
    # names are the same in capitals: RFC 4343
    swapped = [v2.Address(host=one.host.swapcase(), port=one.port) for one in asked.addresses]
    return v2.Endpoints(scheme=asked.scheme, addresses=swapped)
