"""Kafka's access control lists, read and added to."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from access import AccessEntry
from checkback.exceptions import ConfigurationError
from checkback.kafka.kafka_python.library import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    AuthorizationError,
    KafkaError,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from checkback.operations.topics import admin_client
from conf import Settings

_NO_LISTS = 54
"""SECURITY_DISABLED: the broker has no authorizer."""


class Granted(NamedTuple):
    """What was done for one entry."""

    entry: AccessEntry
    added: bool
    """False: it was there."""


class AccessLists:
    """A short-lived connection of somebody who may alter the cluster; use it as a context manager.

    Raises:
        KafkaUnreachableError: no Kafka answers.
    """

    def __init__(self, settings: Settings) -> None:
        self._admin = admin_client(settings.kafka.bootstrap_servers, settings.kafka.python_client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._admin.close()

    def entries(self) -> tuple[AccessEntry, ...]:
        """All there are.

        Raises:
            ConfigurationError: the broker has no lists, or does not show them to this user.
        """
        every = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        asked = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, every)
        try:
            found, error = self._admin.describe_acls(asked)
        except KafkaError as raised:
            raise _refused(raised, "Describe") from raised
        if getattr(error, "errno", 0):
            raise _refused(error, "Describe")
        return tuple(_entry(one) for one in found)

    def add(self, wanted: Sequence[AccessEntry]) -> list[Granted]:
        """Add those that are not there; none is taken away.

        Raises:
            ConfigurationError: the broker has no lists, or does not let this user alter them.
        """
        there = set(self.entries())
        new = [entry for entry in dict.fromkeys(wanted) if entry not in there]
        if new:
            try:
                answer = self._admin.create_acls([_acl(entry) for entry in new])
            except KafkaError as raised:
                raise _refused(raised, "Alter") from raised
            for failed in answer["failed"]:
                raise _refused(failed, "Alter")
        return [Granted(entry, entry in new) for entry in wanted]


def _refused(error: Any, operation: str) -> ConfigurationError:
    if getattr(error, "errno", None) == _NO_LISTS:
        return ConfigurationError(
            "This Kafka has no access control lists: everybody who reaches it may do everything. Set "
            "authorizer.class.name on the brokers."
        )
    if isinstance(error, AuthorizationError) or "Authorization" in repr(error):
        return ConfigurationError(f"Kafka does not let this user do that: it needs {operation} on the cluster.")
    return ConfigurationError(f"Kafka's lists could not be used: {error!r}.")


def _acl(entry: AccessEntry) -> Any:
    kind = ResourceType[entry.kind.upper().replace("-", "_")]
    pattern = ACLResourcePatternType.PREFIXED if entry.prefixed else ACLResourcePatternType.LITERAL
    permission = ACLPermissionType.ALLOW if entry.allows else ACLPermissionType.DENY
    operation = ACLOperation[_upper(entry.operation)]
    return ACL(entry.principal, entry.host, operation, permission, ResourcePattern(kind, entry.name, pattern))


def _entry(acl: Any) -> AccessEntry:
    where = acl.resource_pattern
    return AccessEntry(
        principal=acl.principal,
        operation="".join(part.capitalize() for part in acl.operation.name.split("_")),
        kind=where.resource_type.name.lower().replace("_", "-"),
        name=where.resource_name,
        prefixed=where.pattern_type == ACLResourcePatternType.PREFIXED,
        allows=acl.permission_type == ACLPermissionType.ALLOW,
        host=acl.host,
    )


def _upper(operation: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in operation).lstrip("_")
