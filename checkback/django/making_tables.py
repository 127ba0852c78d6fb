"""The migration's operation that makes the two tables: those of SQLAlchemy's side, which may be there already."""

from typing import Any

from django.db import router
from django.db.migrations.operations.base import Operation

from checkback.django import inbox, transaction_log
from checkback.django.databases import connection_of, dialect_of
from checkback.wire.message_id import MAX_BYTES
from checkback.wire.protocol import MAX_GROUP_BYTES


class MakeTables(Operation):
    """CREATE TABLE IF NOT EXISTS, with statements of our own: Django 4.2 cannot make a key of two columns."""

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Nothing: the models are beside it."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:  # noqa: ARG002  (Django's)
        """Make them where the routers want them."""
        connection = schema_editor.connection
        for model, name in _TABLES.items():
            if router.allow_migrate(connection.alias, app_label, model_name=model):
                connection_of(connection.alias)  # refuses a database that we do not work in
                for statement in _STATEMENTS[model](connection):
                    schema_editor.execute(statement, params=None)
                if not schema_editor.collect_sql:
                    dialect_of(connection).refuse_unsafe_table(connection, name)  # one that was there

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:  # noqa: ARG002  (Django's)
        """Remove them."""
        connection = schema_editor.connection
        for model, name in _TABLES.items():
            if router.allow_migrate(connection.alias, app_label, model_name=model):
                schema_editor.execute(f"DROP TABLE {dialect_of(connection).named(name)}", params=None)

    def describe(self) -> str:
        """What ``manage.py migrate --plan`` says."""
        return "Make the tables of the transaction log and the inbox"


def _log(connection: Any) -> list[str]:
    return [dialect_of(connection).ddl(transaction_log.TABLE)]


def _inbox(connection: Any) -> list[str]:
    dialect = dialect_of(connection)
    table, text, by_age = dialect.named(inbox.TABLE), dialect.text, "(consumer_group, received_at)"
    # MySQL has no IF NOT EXISTS for an index
    index = f", INDEX {_BY_AGE} {by_age}" if connection.vendor == "mysql" else ""
    made = (
        f"CREATE TABLE IF NOT EXISTS {table} (consumer_group {text}({MAX_GROUP_BYTES}) NOT NULL, "
        f"message_id {text}({MAX_BYTES}) NOT NULL, received_at {dialect.moment} NOT NULL, "
        f"PRIMARY KEY (consumer_group, message_id){index}){dialect.table_end}"
    )
    return [made] if index else [made, f"CREATE INDEX IF NOT EXISTS {_BY_AGE} ON {table} {by_age}"]


_BY_AGE = "checkback_inbox_by_age"
_TABLES = {"loggedtransaction": transaction_log.TABLE, "receivedbygroup": inbox.TABLE}
"""By the name of the model."""
_STATEMENTS = {"loggedtransaction": _log, "receivedbygroup": _inbox}
"""Likewise."""
