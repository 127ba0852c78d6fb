"""What mkdocs asks while it builds the site: pages from elsewhere, their links, and what has no docstring.

A link that leads out of ``docs/`` becomes one into the repository, if there is such a file. All that is warned of here
or by mkdocs ends ``make docs``, since it builds strictly.
"""

import logging
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/checkback/checkback"
ELSEWHERE = {
    "index.md": "README.md",
    "examples.md": "examples/README.md",
    "deploy.md": "deploy/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
"""Pages by what they are made of."""

_log = logging.getLogger("mkdocs.hooks.pages")
_TARGET = re.compile(r"(?<=\]\()(?!https?://|mailto:|#)([^)#\s]+)")
_MODULE = re.compile(r"^::: (\S+)", re.MULTILINE)
_ROLE = re.compile(r":(?:\w+):<code>~?([^<]*)</code>")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from elsewhere, and the list of the decisions."""
    for page, source in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    decisions = [file for file in sorted((ROOT / "docs" / "decisions").glob("*.md")) if file.name != "index.md"]
    lines = [f"- [{_title(file)}]({file.name})" for file in decisions]
    text = "# Decisions\n\nWhy it is so, one page a choice.\n\n" + "\n".join(lines) + "\n"
    files.append(File.generated(config, "decisions/index.md", content=text))
    config.nav = _with_decisions(config.nav, ["decisions/index.md", *(f"decisions/{file.name}" for file in decisions)])
    return files


def _title(file: Path) -> str:
    return file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _with_decisions(nav: list[Any] | None, pages: list[str]) -> list[Any]:
    """The navigation, with all decisions where their folder is named."""
    folder = {"Decisions": "decisions/"}
    return [
        {title: [{"Decisions": pages} if page == folder else page for page in rows] for title, rows in section.items()}
        for section in nav or []
    ]


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turn links to files into links to pages, or to the repository; note public names without a docstring."""
    for module in _MODULE.findall(markdown):
        for name in undocumented(module):
            _log.warning("%s: %s has no docstring", page.file.src_uri, name)
    here = page.file.src_uri
    return _TARGET.sub(lambda found: link(here, found[1]), markdown)


def link(here: str, target: str) -> str:
    """What stands for ``target`` on the page ``here``."""
    source = PurePosixPath(ELSEWHERE.get(here, f"docs/{here}"))
    path = posixpath.normpath(str(source.parent / target))
    pages = {of: page for page, of in ELSEWHERE.items()} | {"docs/decisions": "decisions/index.md"}
    inside = path.removeprefix("docs/") if path.startswith("docs/") and Path(path).suffix != ".py" else None
    page = pages.get(path, inside)
    if page is not None:
        return posixpath.relpath(page, posixpath.dirname(here) or ".")
    if not (ROOT / path).exists():
        return target  # mkdocs warns of it
    return f"{REPOSITORY}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"


def on_page_content(html: str, **_: object) -> str:
    """Show what a docstring refers to, without the roles that editors go by."""
    return _ROLE.sub(r"<code>\1</code>", html)


def undocumented(path: str) -> list[str]:
    """Names that a module or class makes public and that nobody has described: what it exports, and their methods."""
    package = griffe.load(path.partition(".")[0], search_paths=[ROOT])
    found = package[path.partition(".")[2]] if "." in path else package
    if found.is_class:
        return list(_without(found))
    names = found.exports or [name for name, one in found.members.items() if _public(name) and not one.is_alias]
    return [one for name in names for one in _without(found.members[str(name)])]


def _public(name: str) -> bool:
    return not name.startswith("_")


def _without(found: griffe.Object | griffe.Alias) -> Iterator[str]:
    one = found.final_target if isinstance(found, griffe.Alias) else found
    if not one.has_docstring:
        yield one.path
    if one.is_class:
        for name, member in one.members.items():
            if _public(name) and member.is_function:
                yield from _without(member)
