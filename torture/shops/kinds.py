"""The kinds of shops of a fault run: how each speaks to which database."""

from enum import StrEnum


class Where(StrEnum):
    """A server of the run's own."""

    MARIADB = "mariadb"
    POSTGRESQL = "postgresql"


class Kind(StrEnum):
    """A shop, which is a producer group, too."""

    SQL_MARIADB = "sqlalchemy-mariadb"
    SQL_POSTGRESQL = "sqlalchemy-postgresql"
    PLAIN_MARIADB = "pymysql-mariadb"
    DJANGO_POSTGRESQL = "django-postgresql"
    DJANGO_MARIADB = "django-mariadb"

    @property
    def on_django(self) -> bool:
        """Whether a site sells, and answers checks."""
        return self.startswith("django-")

    @property
    def where(self) -> Where:
        """Its database."""
        return Where(self.rpartition("-")[2])


URL = "TORTURE_SHOP"
"""The variable that has the address of a shop's database."""
SELLS, ANSWERS = "sells", "answers"
"""What a shop's process does: the first does both."""


def outcomes_file(kind: Kind) -> str:
    """A line for each sale that did not end with its order committed and its op written, and why."""
    return f"outcomes-{kind}.txt"


DEFECTS_FILE = "defects.txt"
"""A line for each sale that ended as none may."""
