"""HTML and SVG that cannot be broken by what it shows: all text is escaped, save what this module made itself."""

from __future__ import annotations

from collections.abc import Container, Iterable
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


def data_table(
    titles: Iterable[str],
    rows: Iterable[Markup],
    label: str,
    *,
    figures: Container[int] = (),
    class_: str | None = None,
    captioned: bool = True,
) -> Markup:
    """Return a table in a box that scrolls where it is wider than the page, by keyboard too.

    `figures` are the numbers of the columns that stand right; without a caption, the label is for screen readers only.
    """
    heads = (
        element("th", title, scope="col", class_="figure" if number in figures else None)
        for number, title in enumerate(titles)
    )
    caption = [element("caption", label)] if captioned else []
    body = (element("thead", element("tr", *heads)), element("tbody", *rows))
    table = element("table", *caption, *body, class_=class_)
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=label)


def joined(children: Iterable[str], separator: str = "") -> Markup:
    """Return the children one after the other, text among them escaped."""
    return Markup(separator.join(child if isinstance(child, Markup) else text(child) for child in children))


def text(content: str) -> Markup:
    """Return text as markup: control characters and marks that turn the direction of writing are made visible."""
    return Markup(escape(printable(content), quote=True))


def _attribute(value: str | float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else text(str(value))
