"""The pages of the documentation can be reached, and their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainlint.lint.analyze import analyze
from trainlint.lint.finding import Finding
from trainlint.lint.rule import Rule, quote
from trainlint.semantics.library import RECORDED, RECORDED_PREFIXES
from trainlint.semantics.project import Project

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


@pytest.mark.parametrize("page", [*TOP, *PAGES], ids=name_of)
def test_tests_that_a_page_names_are_there(page: Path) -> None:
    for command in re.findall(r"`(?:pytest|python -m) (tests[^`]*)`", page.read_text(encoding="utf-8")):
        for word in command.split():
            path = REPOSITORY / (word if "/" in word else word.replace(".", "/"))
            assert path.exists() or path.with_suffix(".py").exists(), command


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


def test_no_page_rests_on_an_article_alone() -> None:
    pages = [page for page in (DOCS / "rules").glob("*.md") if _articles(page)]
    references = {page.name: page.read_text(encoding="utf-8").partition("## References")[2] for page in pages}
    assert [name for name, text in references.items() if "https://" not in text] == []


def _articles(page: Path) -> str:
    """What a page says after the word "article" or "articles", up to the end of the sentence or bracket."""
    return " ".join(re.findall(r"\barticles? ([\d, and]+)", page.read_text(encoding="utf-8")))


PACK_PAGE = DOCS / "writing-a-rule-pack.md"
METRICS_SENT = """\
import torch
import wandb

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
        loss = model(inputs.cuda()).mean()
        loss.backward()
        optimizer.step()
        wandb.log({"loss": loss})
    wandb.log({"epoch": epoch})
"""


def test_the_rule_in_the_page_about_packs_finds_what_it_says() -> None:
    (check,) = re.findall(r"^```python\n(def check.+?)^```$", PACK_PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    names = {"Project": Project, "Iterator": Iterator, "Finding": Finding, "quote": quote}
    exec(check, names)
    rule = type("MetricsPerStep", (Rule,), {"code": "ACM001", "name": "metrics-per-step", "check": names["check"]})
    assert [finding.site.row for finding in rule().check(analyze({"train.py": METRICS_SENT}))] == [11]


def test_the_page_about_packs_names_calls_that_are_recorded() -> None:
    text = PACK_PAGE.read_text("utf-8").partition("`calls_of` knows")[2].partition("The full list")[0]
    listed = set(re.findall(r"`([\w.]+)`", text)) - {"zero_grad"}
    known = {*RECORDED, *(prefix.rstrip(".") for prefix in RECORDED_PREFIXES)}
    assert listed
    assert listed <= known
