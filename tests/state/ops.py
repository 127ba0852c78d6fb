"""The ops that tests of single rules begin with."""

from tests.state.records import Op

COMMIT, ROLLBACK, UNKNOWN = Op("commit"), Op("rollback"), Op("unknown")
CHECK_COMMIT, CHECK_ROLLBACK = Op("check_commit", source="check"), Op("check_rollback", source="check")
CHECK_UNKNOWN, UNREACHABLE = Op("check_unknown", source="check"), Op("check_unreachable", source="check")
OPERATOR_COMMIT, OPERATOR_ROLLBACK, RESUME = (
    Op(says, source="operator") for says in ("operator_commit", "operator_rollback", "resume")
)
