"""Files that are told from one another by a number in their names, most often a batch's."""

from collections.abc import Iterable
from typing import NamedTuple


class NumberedFiles(NamedTuple):
    """How files of one kind are named; without a prefix, by their number alone, as Spark's own logs."""

    prefix: str = ""
    suffix: str = ""

    def name(self, number: int) -> str:
        """Of the file with this number."""
        return f"{self.prefix}{number}{self.suffix}"

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Of those among the names that are such."""
        ours = [name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix)]
        found = [name.removesuffix(self.suffix) for name in ours]
        return [int(number) for number in found if number.isdigit()]


BATCHES = NumberedFiles()
"""In Spark's ``offsets`` and ``commits``."""
