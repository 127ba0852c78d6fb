"""Every name of kafka-python that the product uses outside this folder.

Nobody else imports kafka, which ``tests/test_rooms.py`` holds: what depends on the library is seen here.
"""

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    NewTopic,
    OffsetSpec,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import (
    AuthorizationError,
    CommitFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    InvalidReplicationFactorError,
    KafkaConfigurationError,
    KafkaError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    SaslAuthenticationFailedError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedSaslMechanismError,
    for_code,
)
from kafka.partitioner.default import murmur2
from kafka.structs import OffsetAndMetadata
