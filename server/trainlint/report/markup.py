"""HTML and SVG that cannot be broken by what it shows: all text is escaped, save what this module made itself."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from trainlint.report.style import printable


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """Return an element; children that are no `Markup` are text. Attributes that are None are left out.

    An underscore in an attribute's name stands for a hyphen, one at its end for nothing: `class_`, `aria_label`.
    """
    listed = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{listed}>{joined(children)}</{name}>")


def joined(children: Iterable[str], separator: str = "") -> Markup:
    """Return the children one after the other, text among them escaped."""
    return Markup(separator.join(child if isinstance(child, Markup) else text(child) for child in children))


def text(content: str) -> Markup:
    """Return text as markup: control characters and marks that turn the direction of writing are made visible."""
    return Markup(escape(printable(content), quote=True))


def _attribute(value: str | float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else text(str(value))
