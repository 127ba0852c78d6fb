"""The exceptions of Checkback, all under one root.

::

    CheckbackError                 retriable = False
    ├── ConfigurationError         a setting is wrong; the message names its key
    │   ├── KafkaUnreachableError        retriable = True; no Kafka answers at the address given
    │   ├── WrongOptionError             an option of a Kafka client that it does not have, or that is ours to set
    │   ├── NotAllowedError              Kafka's access control lists do not let this user do it
    │   └── MissingTopicError            the message's topic does not exist, and the producer was told to refuse that
    ├── ProtocolError              a record breaks docs/protocol.md
    ├── InstallationError          Java, jars or a package are missing, and could not be fetched
    ├── BrokerStartError           the local Kafka did not come up
    ├── ProducerClosedError        used after close()
    ├── HalfMessageError           the half message was not written; the local transaction did not run
    │   ├── HalfMessageTimeoutError      retriable = True
    │   └── GroupOverLimitError          retriable = True; the job takes no half messages of the producer group now
    ├── TransactionBlockedError    a check has rolled the transaction back; its local transaction must not commit
    ├── DuplicateTransactionError  the local transaction is in the transaction log already
    ├── RecordLostError            retriable = True; what a transaction recorded is undone, so it did not commit
    ├── OperatorError              what an operator asked for was not done, or not all of it
    ├── ConsumerError              retriable = True; a consumer failed
    │   └── OffsetGoneError              no message at the stored offset; when_offset_is_gone is "stop"
    ├── CheckServiceError          retriable = True; the check service failed
    ├── JobFailedError             retriable = True; the streaming job failed, Kafka being away, for example
    │   ├── KafkaLostError               retriable = True; Kafka does not answer a running job any more
    │   ├── DestinationError             retriable = True; a table that messages go to cannot be written to
    │   └── InputCutShortError           retriable = True; a task did not get all rows of its batch
    ├── JobStoppedError            the streaming job stopped by itself, before any harm
    │   ├── CheckpointMismatchError      checkpoint and settings or Kafka disagree
    │   ├── ProgressError                the progress offset is not one this batch may follow
    │   ├── OwnTopicError                a topic of Checkback's own refuses a record
    │   ├── TakenOverError               another job runs on this checkpoint now
    │   └── TransactionTimeoutError      a batch took longer than its Kafka transaction may
    └── StateFormatError           bytes in the state store that this version cannot read
        └── IllegalTransitionError       a pair (state, event) the table does not have
"""


class CheckbackError(Exception):
    """Root of all exceptions raised by Checkback on purpose."""

    retriable: bool = False
    """True when the same call may succeed later with nothing changed."""


class ConfigurationError(CheckbackError):
    """A setting is unknown, of a wrong type or contradicts another one."""


class KafkaUnreachableError(ConfigurationError):
    """No Kafka answers: the address is wrong, or Kafka is away."""

    retriable = True


class WrongOptionError(ConfigurationError):
    """An option of a Kafka client does not exist, has a value that cannot be used, or is ours to set."""


class NotAllowedError(ConfigurationError):
    """Kafka's access control lists do not let this user do something; the message names the rights."""


class MissingTopicError(ConfigurationError):
    """Kafka does not have the topic of a message; nothing was written."""


class ProtocolError(CheckbackError):
    """A record or an argument breaks the protocol (``docs/protocol.md``)."""


class InstallationError(CheckbackError):
    """Something the job needs is not installed and could not be fetched."""


class BrokerStartError(CheckbackError):
    """The local Kafka broker did not start; the message holds the end of its log."""


class ProducerClosedError(CheckbackError):
    """The producer was used after :meth:`close`."""


class HalfMessageError(CheckbackError):
    """The half message was not written, so the local transaction was not run."""


class HalfMessageTimeoutError(HalfMessageError):
    """Kafka did not acknowledge the half message in time.

    It may still be in the log: then the check finds no local transaction and rolls it back.
    """

    retriable = True


class GroupOverLimitError(HalfMessageError):
    """The producer group is over a quota, or its account over a limit, so the job would reject the half message."""

    retriable = True


class TransactionBlockedError(CheckbackError):
    """A check has answered *rollback* for this transaction, so its local transaction must not commit any more."""


class DuplicateTransactionError(CheckbackError):
    """A transaction id was recorded in the transaction log a second time: its local transaction has run before."""


class RecordLostError(CheckbackError):
    """What was recorded in a database transaction is gone before its commit, so nothing was committed: run all again.

    The transaction has gone on after an error that it handled itself: a statement that failed on PostgreSQL, a deadlock
    or a lock time-out on MySQL and MariaDB, or a savepoint around what was recorded that was rolled back alone.
    """

    retriable = True


class OperatorError(CheckbackError):
    """What an operator asked for was not done, or not all of it."""


class ConsumerError(CheckbackError):
    """A consumer failed. The next one continues at its stored offsets."""

    retriable = True


class OffsetGoneError(ConsumerError):
    """There is no message at a group's stored offset, or none any more, and ``when_offset_is_gone`` is ``"stop"``."""

    retriable = False


class CheckServiceError(CheckbackError):
    """The check service failed. A restart continues where it stopped."""

    retriable = True


class JobFailedError(CheckbackError):
    """The streaming job failed. A restart continues where it stopped."""

    retriable = True


class KafkaLostError(JobFailedError):
    """Kafka does not answer a running job any more, so it cannot finish its batch."""


class DestinationError(JobFailedError):
    """A table that messages go to cannot be written to; the batch is run again at the next start."""


class InputCutShortError(JobFailedError):
    """A task did not get all rows of its batch, so it has committed none; the batch is run again."""


class JobStoppedError(CheckbackError):
    """The streaming job refused to continue, before doing harm."""


class CheckpointMismatchError(JobStoppedError):
    """The checkpoint was made under other settings, or Kafka is not the one it knew."""


class ProgressError(JobStoppedError):
    """The progress offset of a state partition is not one that this batch may follow."""


class OwnTopicError(JobStoppedError):
    """One of Checkback's own topics refuses a record of the job, which can be put nowhere else."""


class TransactionTimeoutError(JobStoppedError):
    """Kafka aborted a batch that took longer than ``job.sink_transaction_timeout``; it is run again after a start."""


class TakenOverError(JobStoppedError):
    """Another job has taken over the checkpoint, and continues where this one stopped."""


class StateFormatError(CheckbackError):
    """State bytes that this version of Checkback cannot read."""


class IllegalTransitionError(StateFormatError):
    """The transition table has no row for a pair of state and event."""
