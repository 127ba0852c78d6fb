"""The migration's operation that makes the two tables: those of SQLAlchemy's side, which may be there already."""

from typing import Any

from django.db import models, router
from django.db.migrations.operations.base import Operation

from checkback.django import inbox, transaction_log
from checkback.django.databases import connection_of, table_of
from checkback.wire.message_id import MAX_BYTES
from checkback.wire.protocol import MAX_GROUP_BYTES


class MakeTables(Operation):
    """CREATE TABLE IF NOT EXISTS, with statements of our own: Django 4.2 cannot make a key of two columns."""

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Nothing: the models are beside it."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:  # noqa: ARG002  (Django's)
        """Make them where the routers want them."""
        connection = schema_editor.connection
        for model, statements in _statements(connection).items():
            if router.allow_migrate(connection.alias, app_label, model_name=model):
                connection_of(connection.alias)  # refuses a database that we do not work in
                for statement in statements:
                    schema_editor.execute(statement, params=None)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:  # noqa: ARG002  (Django's)
        """Remove them."""
        connection = schema_editor.connection
        tables = {"loggedtransaction": transaction_log.TABLE, "receivedbygroup": inbox.TABLE}
        for model, name in tables.items():
            if router.allow_migrate(connection.alias, app_label, model_name=model):
                schema_editor.execute(f"DROP TABLE {table_of(connection, name)}", params=None)

    def describe(self) -> str:
        """What ``manage.py migrate --plan`` says."""
        return "Make the tables of the transaction log and the inbox"


def _statements(connection: Any) -> dict[str, list[str]]:
    """By the name of the model."""
    moment = models.DateTimeField().db_type(connection)

    def text(length: int) -> str:
        return str(models.CharField(max_length=length).db_type(connection))

    log, box = table_of(connection, transaction_log.TABLE), table_of(connection, inbox.TABLE)
    log_made = (
        f"CREATE TABLE IF NOT EXISTS {log} (transaction_id {text(64)} NOT NULL PRIMARY KEY, "
        f"state {text(9)} NOT NULL, recorded_at {moment} NOT NULL)"
    )
    box_made = (
        f"CREATE TABLE IF NOT EXISTS {box} (consumer_group {text(MAX_GROUP_BYTES)} NOT NULL, "
        f"message_id {text(MAX_BYTES)} NOT NULL, received_at {moment} NOT NULL, "
        "PRIMARY KEY (consumer_group, message_id))"
    )
    by_age = f"CREATE INDEX IF NOT EXISTS checkback_inbox_by_age ON {box} (consumer_group, received_at)"
    return {"loggedtransaction": [log_made], "receivedbygroup": [box_made, by_age]}
