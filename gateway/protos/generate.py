"""Makes ``gateway/rocketmq/v2`` from RocketMQ's own files beside this one: ``python -m gateway.protos.generate``.

They are of github.com/apache/rocketmq-apis at 3e60073, under the Apache License 2.0. The generated modules lie in a
package of ours instead of one named ``apache``.
"""

import re
import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).parent
_MADE = _HERE.parent / "rocketmq" / "v2"
_PLACE = "apache/rocketmq/v2"


def generated() -> dict[str, str]:
    """Contents of the modules, by the names of their files."""
    from grpc_tools import protoc  # noqa: PLC0415  (a development tool)

    with tempfile.TemporaryDirectory() as folder:
        names = [f"{_PLACE}/{path.name}" for path in sorted((_HERE / _PLACE).glob("*.proto"))]
        protos = Path(protoc.__file__).parent / "_proto"
        wanted = [f"--python_out={folder}", f"--pyi_out={folder}", f"-I{_HERE}", f"-I{protos}"]
        if protoc.main(["protoc", *wanted, *names]):
            sys.exit("protoc has failed")
        made = sorted(path for path in (Path(folder) / _PLACE).iterdir())
        return {path.name: _in_our_package(path.read_text(encoding="utf-8")) for path in made}


def _in_our_package(text: str) -> str:
    return re.sub(r"^from apache\.rocketmq\.v2 import", "from gateway.rocketmq.v2 import", text, flags=re.MULTILINE)


if __name__ == "__main__":
    for name, content in generated().items():
        (_MADE / name).write_text(content, encoding="utf-8")
