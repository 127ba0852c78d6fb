"""``python -m checkback.local [KIND ...]``: find or fetch what the job and the local Kafka need, and say so.

KIND is that of a table that messages go to: delta, postgresql.
"""

import sys

from checkback.exceptions import InstallationError
from checkback.local.jars import kafka_jars, spark_jars
from checkback.local.java import java_command


def main() -> None:
    """Fetch everything that is missing; exit status 1 with one sentence when that fails."""
    try:
        print("==> Looking for Java", flush=True)  # noqa: T201  (what this command says)
        print(f"    {java_command()}", flush=True)  # noqa: T201  (what this command says)
        print("==> Fetching the jars of Kafka and of Spark's connector (once)", flush=True)  # noqa: T201  (what this command says)
        print(f"    {len(kafka_jars())} and {len(spark_jars(sys.argv[1:]))} jars", flush=True)  # noqa: T201  (what this command says)
    except InstallationError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
