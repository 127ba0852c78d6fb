"""The access policy in the job: read, fixed with each batch, told to its tasks."""

from streaming.access.not_allowed import NotAllowed, told_policy, why_not_together
from streaming.access.policy_file import PolicyFile
from streaming.access.policy_in_force import POLICY, PolicyInForce

__all__ = ["POLICY", "NotAllowed", "PolicyFile", "PolicyInForce", "told_policy", "why_not_together"]
