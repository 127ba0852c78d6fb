"""The transaction log and the inbox."""

from typing import Any, ClassVar

from django.db import migrations, models

from checkback.django.fields import ExactTextField
from checkback.django.making_tables import MakeTables
from checkback.django.models import COMPOSITE_KEYS

_KEY: list[tuple[str, Any]] = (
    [("pk", models.CompositePrimaryKey("consumer_group", "message_id", primary_key=True, serialize=False))]
    if COMPOSITE_KEYS
    else []
)
_OF_MESSAGE = {} if COMPOSITE_KEYS else {"primary_key": True, "serialize": False}


class Migration(migrations.Migration):
    """The tables are made by statements of ours, and the models are what Django knows of them."""

    initial = True
    dependencies: ClassVar[list[Any]] = []
    operations: ClassVar[list[Any]] = [
        migrations.SeparateDatabaseAndState(
            database_operations=[MakeTables()],
            state_operations=[
                migrations.CreateModel(
                    name="LoggedTransaction",
                    fields=[
                        ("transaction_id", ExactTextField(max_length=64, primary_key=True, serialize=False)),
                        ("state", models.CharField(max_length=9)),
                        ("recorded_at", models.DateTimeField()),
                    ],
                    options={"db_table": "checkback_transactions", "default_permissions": ("view",)},
                ),
                migrations.CreateModel(
                    name="ReceivedByGroup",
                    fields=[
                        *_KEY,
                        ("consumer_group", ExactTextField(max_length=255)),
                        ("message_id", ExactTextField(max_length=300, **_OF_MESSAGE)),
                        ("received_at", models.DateTimeField()),
                    ],
                    options={
                        "db_table": "checkback_inbox",
                        "default_permissions": ("view",),
                        "indexes": [
                            models.Index(fields=["consumer_group", "received_at"], name="checkback_inbox_by_age")
                        ],
                    },
                ),
            ],
        )
    ]
