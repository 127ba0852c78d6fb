"""Section ``[sinks]``: which topics' messages go to tables beside Kafka or instead of it, and where those are."""

import os
import posixpath
import re
from itertools import combinations
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from conf.sections import Section

KAFKA = "kafka"
"""The destination that is always there: the message's real topic."""

_IDENTIFIERS = r"^[A-Za-z_]\w{0,62}(\.[A-Za-z_]\w{0,62})?$"

# A folder is renamed there object by object, so that a reader could see half a batch.
_NO_ATOMIC_RENAME = re.compile(r"^(s3|s3a|s3n|gs|wasb|wasbs|oss|cosn)://")

Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,63}$")]


def _atomically_renamed(path: str) -> str:
    if _NO_ATOMIC_RENAME.match(path):
        raise ValueError(
            "an object store cannot rename a folder in one step, so readers could see half a batch: use kind = 'delta'"
        )
    return path


def _resolved(path: str) -> str:
    """One name of a folder that has several; of this machine's folders symbolic links are followed."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return os.path.realpath(path)
    if scheme == "file":
        return os.path.realpath(f"/{rest.lstrip('/')}")
    host, _, folder = rest.removeprefix("//").partition("/")
    return f"{scheme}://{host}/{posixpath.normpath(folder.strip('/'))}".removesuffix("/.")


def _without_password(url: str) -> str:
    if re.search(r"[?&](user|password)=", url, re.IGNORECASE):
        raise ValueError("write user and password as keys of their own, where they are not shown")
    return url


class SinkRule(Section):
    """Where messages of some topics go. The first rule whose pattern a topic matches holds."""

    topic: Text
    """A pattern of real topics' names, with ``*``, ``?`` and ``[...]``."""
    to: Annotated[list[Name], Field(min_length=1)]
    """Names of destinations: ``kafka``, and keys of ``sinks.tables``."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.to)) < len(self.to):
            raise ValueError(f"a destination is named twice for the topics {self.topic}")
        return self


class DeltaTable(Section):
    """A Delta Lake table."""

    kind: Literal["delta"]
    path: Text

    @property
    def place(self) -> str:
        """What two destinations must not have in common."""
        return _resolved(self.path)


class ParquetFiles(Section):
    """A folder of Parquet files, one folder in it for each batch."""

    kind: Literal["parquet"]
    path: Annotated[Text, AfterValidator(_atomically_renamed)]

    @property
    def place(self) -> str:
        """What two destinations must not have in common."""
        return _resolved(self.path)


class PostgresqlTable(Section):
    """A table in PostgreSQL, reached by JDBC."""

    kind: Literal["postgresql"]
    url: Annotated[str, Field(pattern=r"^jdbc:postgresql://\S+$"), AfterValidator(_without_password)]
    table: Annotated[str, Field(pattern=_IDENTIFIERS)] = "messages"
    progress_table: Annotated[str, Field(pattern=_IDENTIFIERS)] = "checkback_progress"
    user: str = ""
    password: SecretStr = SecretStr("")

    @property
    def place(self) -> str:
        """What two destinations must not have in common."""
        return f"{self.url.partition('?')[0]} {self.table}"


TableSettings = Annotated[DeltaTable | ParquetFiles | PostgresqlTable, Field(discriminator="kind")]


class SinksSettings(Section):
    """Where committed messages go; without rules, all to their real topics in Kafka."""

    rules: list[SinkRule] = []
    tables: dict[Name, TableSettings] = {}

    @property
    def places(self) -> dict[str, str]:
        """Of each table."""
        return {name: table.place for name, table in self.tables.items()}

    @field_validator("tables", mode="before")
    @classmethod
    def _with_more_than_a_password(cls, tables: dict[str, Any]) -> dict[str, Any]:
        """The others are from the environment, which a command shares that has no settings of the table."""
        return {
            name: table for name, table in tables.items() if not isinstance(table, dict) or {*table} != {"password"}
        }

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        if KAFKA in self.tables:
            raise ValueError(f"sinks.tables: the name {KAFKA} is taken, it means the real topic: choose another one")
        for rule in self.rules:
            unknown = [name for name in rule.to if name != KAFKA and name not in self.tables]
            if unknown:
                known = ", ".join([KAFKA, *self.tables])
                raise ValueError(
                    f"sinks.rules: topics {rule.topic} go to {', '.join(unknown)}, which sinks.tables does not have; "
                    f"there is {known}"
                )
        patterns = [rule.topic for rule in self.rules]
        repeated = sorted({pattern for pattern in patterns if patterns.count(pattern) > 1})
        if repeated:
            raise ValueError(f"sinks.rules: two rules for {', '.join(repeated)}; the second would never apply")
        for (one, first), (other, second) in combinations(self.tables.items(), 2):
            if first.place == second.place:
                raise ValueError(f"sinks.tables: {one} and {other} are the same place, which would get messages twice")
            if any(f"{a.place}/".startswith(f"{b.place}/") for a, b in ((first, second), (second, first))):
                raise ValueError(f"sinks.tables: one of {one} and {other} is in the folder of the other: move it out")
        return self
