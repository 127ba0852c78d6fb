"""What to type when a package is missing: from an index, or from a clone of the repository."""


def extra(name: str) -> str:
    """The command that installs the SDK with this extra."""
    return f"pip install 'checkback[{name}]', or in a clone: pip install '.[{name}]'"


def job(extra: str = "") -> str:
    """The command that installs the job and the command line."""
    wanted = f"[{extra}]" if extra else ""
    return f"pip install 'checkback-job{wanted}', or in a clone: pip install . './deploy/job{wanted}'"
