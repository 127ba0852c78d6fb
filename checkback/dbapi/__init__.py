"""The transaction log on plain connections of psycopg, PyMySQL or sqlite3: see ``docs/transaction-log.md``."""

from checkback.dbapi.transacting import DbapiScope, DbapiTransactions
from checkback.dbapi.transaction_log import DbapiTransactionLog

__all__ = ["DbapiScope", "DbapiTransactionLog", "DbapiTransactions"]
