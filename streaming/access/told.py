"""What the driver tells the tasks of a batch of the access policy, and what they make of it."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from access.marked import MarkedPolicy, lacking
from access.policy import AccessPolicy, judge
from access.verifying import Verifier, Writer
from checkback.exceptions import JobStoppedError
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import GROUP, SIGNATURE, Topics
from checkback.wire.sent_back import dead_letter_of
from checkback.wire.signed_records import WrittenSignature
from conf.secrets_file import read_keys
from streaming.access.signatures import RowRead, Signatures
from streaming.batch.batch_word import BatchWord
from streaming.batch.headers import Headers, unpack_headers

_MOST_NAMES = 10_000
POLICY_WORD = BatchWord("checkback.access")
"""The policy of a batch as JSON; empty for none."""
SECRETS_WORD = BatchWord("checkback.secrets")
"""Where the file with the keys' secrets lies: the secrets themselves are nobody's to see."""


class NotAllowed:
    """Why a producer group may not send to a topic; remembers what it has said."""

    def __init__(self, policy: AccessPolicy, own: Topics) -> None:
        remembering = lru_cache(_MOST_NAMES)  # a producer can invent names
        self.reason: Callable[[str, str], str] = remembering(
            lambda group, topic: judge(policy, group, topic, own).reason
        )
        """Of a group and a topic. Empty: it may."""
        self.accounts_of: Callable[[str], tuple[str, ...]] = remembering(lambda group: tuple(policy.of_group(group)))
        """The accounts that a group belongs to, in the order of the file."""


def why_not_together(policy: NotAllowed | None, group: str, topics: Iterable[str]) -> str:
    """Why a group's messages for these topics are not allowed together; empty: they are, or there is no policy."""
    if policy is None:
        return ""
    return next((why for topic in topics if (why := policy.reason(group, topic))), "")


def told_policy(own: Topics) -> NotAllowed | None:
    """In a task: the policy of its batch; None where there is none."""
    text = POLICY_WORD.told()
    return _not_allowed(text, own) if text else None


def told_verifier() -> Verifier | None:
    """In a task: who judges signatures in its batch; None where nothing has to be signed.

    Raises:
        JobStoppedError: the secrets that the batch was begun with are not there any more.
    """
    text = POLICY_WORD.told()
    return _verifier(text, SECRETS_WORD.told()) if text else None


def signed_dead_letter(row: Mapping[str, Any], topics: Topics) -> tuple[str, Headers] | None:
    """In a task: the topic and the headers of the dead letter for a rejected record.

    None if it is no retry of a consumer group, or lacks the signature that the group's retries need. The signature's
    time does not count: a wrong clock may be why the record is rejected.
    """
    written = unpack_headers(row["headers"])
    letter = dead_letter_of(written, topics, row["reason"]) if row["topic"] == topics.half else None
    verifier = told_verifier()
    if letter is None or verifier is None:
        return letter
    ours = own_headers(written)
    signature = WrittenSignature.parse(ours.get(SIGNATURE))
    read = RowRead(row["key"], row["value"], 0 if signature is None else signature.time_ms, -1)
    signatures = Signatures(verifier, topics.half, row["half_partition"])
    return None if signatures.reason(ours[GROUP].decode(), Writer.RETRY, written, read) else letter


@lru_cache(2)
def _not_allowed(text: str, own: Topics) -> NotAllowed:
    return NotAllowed(MarkedPolicy.model_validate_json(text), own)


@lru_cache(2)
def _verifier(text: str, secrets: str) -> Verifier | None:
    policy = MarkedPolicy.model_validate_json(text)
    if not any(account.keys for account in policy.accounts.values()):
        return None
    keys = read_keys(secrets)
    without = lacking(policy, keys)
    if without:
        raise JobStoppedError(
            f"{secrets} has not the secrets any more that this batch was begun with, of {', '.join(without)}: put them "
            "back until the batch is done. A key whose secret is to change gets another id."
        )
    return Verifier(policy, {key: keys[key] for key in policy.marks})
