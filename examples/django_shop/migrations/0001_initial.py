"""The shop's own table."""

from typing import Any, ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """As ``manage.py makemigrations`` makes it."""

    initial = True
    dependencies: ClassVar[list[Any]] = []
    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="PaidOrder",
            fields=[("number", models.PositiveIntegerField(primary_key=True, serialize=False))],
        )
    ]
