"""What to type when a package is missing: from an index, or from a clone of the repository."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from checkback.exceptions import ConfigurationError


def extra(name: str) -> str:
    """The command that installs the SDK with this extra."""
    return f"pip install 'checkback[{name}]', or in a clone: pip install '.[{name}]'"


def job(extra: str = "") -> str:
    """The command that installs the job and the command line."""
    wanted = f"[{extra}]" if extra else ""
    return f"pip install 'checkback-job{wanted}', or in a clone: pip install . './deploy/job{wanted}'"


def loaded_when_named(modules: Mapping[str, str], *, needs: str, otherwise: str) -> Callable[[str], Any]:
    """A package's ``__getattr__``, which loads some of its names when they are first used.

    Args:
        modules: each of these names, with the module that has it.
        needs: the package that all of them need, which may not be installed.
        otherwise: the message of the ConfigurationError that is raised then.
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(name=name)
        try:
            import_module(needs)
        except ImportError as error:
            raise ConfigurationError(otherwise) from error
        return getattr(import_module(modules[name]), name)

    return load
