"""Command ``ptq explain``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..package_files import find_package_file

DOCS_PACKAGE = "ptq_docs"
"""The pages that an installed wheel holds; in a checkout they are the folder ``docs``."""
_PAGE = "troubleshooting.md"


def explain(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC...", help="Section of the page; its first words are enough."),
    ] = None,
) -> None:
    """Explain a symptom: its causes, and what to do.

    Prints sections of docs/troubleshooting.md, which messages of ptq name. Without a topic it lists them.
    """
    from ptq.core.errors import UsageError

    title, sections = read_sections()
    if not topics:
        names = "\n".join(f"- `{name}`" for name in sections)
        _show(f"# {title}\n\nptq explain TOPIC explains one of these:\n\n{names}\n")
        return
    for topic in topics:
        found = [name for name in sections if name.startswith(topic)]
        if not found:
            raise UsageError(f"there is no topic {topic!r}; take one of {', '.join(sections)}")
        _show(sections[found[0]])


def read_sections() -> tuple[str, dict[str, str]]:
    """The title of the page, and its sections by their anchors. Links are replaced by their texts or files.

    Raises:
        UsageError: The page is neither installed nor beside the package.
    """
    text = _find_page().read_text(encoding="utf-8")
    text = re.sub(r"\[[^\]]*?([\w.]+\.md)\]\([^)]*\)", r"docs/\1", text)
    text = re.sub(r"\[([^\]]*)\]\((\w+\.md)[^)]*\)", r"\1 (docs/\2)", text)
    text = re.sub(r"\[([^\]]*)\]\(#([^)]*)\)", r"\1 (ptq explain \2)", text)
    first, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    sections = {}
    for part in parts:
        heading = part.partition("\n")[0]
        anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        sections[anchor] = f"## {part}"
    return first.partition("\n")[0].removeprefix("# "), sections


def _find_page() -> Path:
    from ptq.core.errors import UsageError

    page = find_package_file(DOCS_PACKAGE, "docs", _PAGE)
    if page is None:
        raise UsageError("docs/troubleshooting.md is not installed; install the wheel again")
    return page


def _show(text: str) -> None:
    """Markdown, formatted on a terminal, as it is in a file or pipe."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        typer.echo(text.rstrip("\n") + "\n")
