"""The pages of the documentation can be reached, and their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TOP = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "CHANGELOG.md"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    """The text outside of code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def targets(page: Path) -> set[tuple[Path, str]]:
    """The local files that a page links to, each with the part of it that is meant."""
    links = [link for link in LINK.findall(prose(page)) if "://" not in link]
    parts = [link.partition("#") for link in links]
    return {((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in parts}


def anchors(page: Path) -> set[str]:
    """The names of a page's headings as code hosts make them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(prose(page))}


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


@pytest.mark.parametrize("page", [*TOP, *PAGES], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in targets(page):
        assert target.exists()
        assert not anchor or anchor in anchors(target)


def test_every_page_can_be_reached_from_the_first() -> None:
    reached, pending = set(), [DOCS / "index.md"]
    while pending:
        page = pending.pop()
        if page not in reached:
            reached.add(page)
            pending += [target for target, _ in targets(page) if target.suffix == ".md" and DOCS in target.parents]
    assert [name_of(page) for page in PAGES if page not in reached] == []


def test_generated_pages_are_what_the_program_says() -> None:
    done = subprocess.run(
        [sys.executable, DOCS / "build_pages.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_articles_that_rules_cite_are_described() -> None:
    cited = {number for page in (DOCS / "rules").glob("*.md") for number in re.findall(r"\b0\d\d\b", _articles(page))}
    described = set(re.findall(r"^## Article (\d+)", (DOCS / "sources.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert cited == described


def _articles(page: Path) -> str:
    """What a page says after the word "article" or "articles", up to the end of the sentence or bracket."""
    return " ".join(re.findall(r"\barticles? ([\d, and]+)", page.read_text(encoding="utf-8")))
