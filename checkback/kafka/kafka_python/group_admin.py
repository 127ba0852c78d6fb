"""kafka-python's client that asks brokers about groups, of which anybody may be a member."""

from struct import error as StructError  # noqa: N812  (an exception, as its name says there)
from typing import Any

from kafka import KafkaAdminClient
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

_PARTS = {"member_metadata": ConsumerProtocolSubscription, "member_assignment": ConsumerProtocolAssignment}


class GroupAdmin(KafkaAdminClient):  # type: ignore[misc]  # kafka-python has no types
    """Describes groups whatever their members have said of themselves.

    kafka-python alone fails where that is not in the form of consumers, which a broker does not look at: one such
    member hides all groups that were asked about together. Here it says nothing.
    """

    def _describe_groups_process_response(self, response: Any) -> Any:
        for group in response.groups:
            for member in group.members:
                for name, form in _PARTS.items():
                    if not _can_be_read(form, getattr(member, name)):
                        setattr(member, name, b"")
        return super()._describe_groups_process_response(response)


def _can_be_read(form: Any, said: bytes | None) -> bool:
    try:
        form.decode(said or b"")
    except (ValueError, StructError):
        return False
    return True
