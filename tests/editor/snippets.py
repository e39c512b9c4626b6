"""The configurations that the documentation shows for editors."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "editors.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    """The text of a section of the page, up to the next heading of its level or above.

    Raises:
        ValueError: there is no such section.
    """
    text = PAGE.read_text(encoding="utf-8")
    # Comments in code look like headings.
    prose = _BLOCK.sub(lambda block: " " * len(block[0]), text)
    heading = re.search(rf"^(#+) {re.escape(title)}$", prose, re.MULTILINE)
    if heading is None:
        raise ValueError(f"the page has no section {title!r}")
    following = re.compile(rf"^#{{1,{len(heading[1])}}} ", re.MULTILINE).search(prose, heading.end())
    return text[heading.end() : None if following is None else following.start()]


def blocks(title: str) -> list[tuple[str, str]]:
    """Language and text of each block of code in a section."""
    return _BLOCK.findall(section(title))


def snippet(title: str, language: str, number: int = 0) -> str:
    """A block of code in a section, by its number among those of a language."""
    return [text for found, text in blocks(title) if found == language][number]
