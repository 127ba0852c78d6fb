"""The access policy in the job: read, fixed with each batch, told to its tasks."""

from streaming.access.policy_in_force import POLICY, PolicyFile, PolicyInForce, missing_secrets, policy_file
from streaming.access.signatures import RowRead, Signatures
from streaming.access.told import NotAllowed, signed_dead_letter, told_policy, told_verifier, why_not_together

__all__ = [
    "POLICY",
    "NotAllowed",
    "PolicyFile",
    "PolicyInForce",
    "RowRead",
    "Signatures",
    "missing_secrets",
    "policy_file",
    "signed_dead_letter",
    "told_policy",
    "told_verifier",
    "why_not_together",
]
