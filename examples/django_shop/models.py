"""What the shop remembers."""

from django.db import models


class PaidOrder(models.Model):
    """An order that is paid."""

    number = models.PositiveIntegerField(primary_key=True)

    def __str__(self) -> str:
        return f"order {self.number}"
