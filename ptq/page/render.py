"""Page → one self-contained HTML document: no address is loaded, no font, no script from elsewhere."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ptq.page.page import Page

if TYPE_CHECKING:
    from jinja2 import Environment


def render_html(page: Page) -> str:
    """The page as text; every text of the page is escaped."""
    shown = [section for section in page.sections if section.blocks]
    return _load_templates().get_template("page.html").render(page=page, sections=shown)


def encode_html(text: str) -> bytes:
    """Encode a page; bytes of a file name that are not text become question marks."""
    return text.encode("utf-8", "replace")


@functools.cache
def _load_templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # 0.02 s

    templates = Environment(
        loader=PackageLoader("ptq.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_replace_control_characters,
    )
    templates.globals["style"] = _read_resource("page.css")
    templates.globals["script"] = _read_resource("page.js")
    return templates


def _read_resource(name: str) -> Markup:
    """A file of this package, which is not escaped."""
    return Markup(files("ptq.page").joinpath("templates", name).read_text(encoding="utf-8"))


def _replace_control_characters(value: Any) -> Any:
    """Texts without control characters, which HTML does not allow; names in models may contain them."""
    if type(value) is not str:
        return value
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in value)
