"""A probe's result as a page: complete in itself, safe whatever it shows, readable on any screen."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from desk import Desk
from judged_runs import CONFIRMED, JOB, NOT_EXERCISED, REFUTED, SOURCE, Run, judged_run, measured, on_gpus, timeline
from tests.report import chromium

from trainlint.probe.measured import Bottleneck, GpuPoint, LineCost, Shares, Steps
from trainlint.report.probe_compare import compare
from trainlint.report.probe_html import render_html
from trainlint.report.probe_result import ProbeResult
from trainlint.report.sources import Sources
from trainlint.report.view import View

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """The elements of a page, its text, and whether all that is opened is closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if self._open[-1:] != ["style"] else ""

    def values(self, attribute: str) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get(attribute)) is not None]


def page_of(run: Run, **options: Any) -> Page:
    return Page(render_html(run.result(), run.view, **options))


def large_run(desk: Desk) -> Run:
    """A run with all there is, and much of it: a long path, a long line, eight GPUs, thousands of steps."""
    run = judged_run(desk, **on_gpus(8, points=3000), timeline=timeline(4000))
    rows = [f"    value_{row} = compute({row})  # {'long ' * (row % 60)}" for row in range(1, 400)]
    path = desk.write("a_long_folder_name/" * 8 + "train.py", "\n".join(rows) + "\n")
    for row in range(1, 390, 2):
        run.judge(path, (CONFIRMED, REFUTED, NOT_EXERCISED)[row % 3], place=(row, 5, row, 12))
    costs = [
        line.model_copy(update={"filename": str(path), "row": row})
        for row in range(1, 390, 5)
        for line in run.measured.lines[:2]
    ]
    run.measured = run.measured.model_copy(update={"lines": [*run.measured.lines, *costs]})
    return run


def test_it_loads_nothing_and_runs_nothing(desk: Desk) -> None:
    page = page_of(judged_run(desk, **on_gpus()))
    tags = {tag for tag, _ in page.elements}
    assert tags.isdisjoint({"script", "img", "link", "iframe", "object", "embed", "base", "form"})
    attributes = {name for _, listed in page.elements for name in listed}
    assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "style")]
    assert [href for href in page.values("href") if not href.startswith("#")] == [
        f"https://trainlint.readthedocs.io/en/latest/rules/{name}/"
        for name in ("sync-in-step", "print-in-step", "prefetch", "branch-on-tensor", "no-autocast")
    ]
    policy = next(value for value in page.values("content") if "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_it_shows_all_sections_and_leads_to_each(desk: Desk) -> None:
    run = judged_run(desk, **on_gpus() | {"environment": measured().environment.model_copy(update={"world_size": 2})})
    page = page_of(run, comparison=compare(Run(desk).result(), run.result()))
    ids = page.values("id")
    targets = [href[1:] for href in page.values("href") if href.startswith("#")]
    assert set(targets) <= set(ids)
    assert len(ids) == len(set(ids))
    assert targets[1:] == [
        "bottleneck",
        "steps",
        "shares",
        "findings",
        "run",
        "lines",
        "gpu",
        "host",
        "ranks",
        "comparison",
        "missing",
    ]


def test_costs_stand_beside_the_source_they_are_about(desk: Desk) -> None:
    html = render_html(judged_run(desk).result(), judged_run(desk).view)
    row = next(part for part in html.split("<tr") if ">9</td>" in part)
    assert "25 ms" in row
    assert "    ids = tokenizer(row[&#x27;text&#x27;])" in row
    assert "in loader workers, beside the step" in row
    confirmed = next(part for part in html.split("<tr") if ">7</td>" in part and "TL201" in part)
    assert "confirmed: measured 12.3 ms per step, 25 %" in confirmed


def test_source_that_is_not_what_it_was_is_not_shown(desk: Desk) -> None:
    edited = View(desk.root, Sources({JOB: SOURCE.replace(b"tokenizer(", b"something_else(")}))
    html = render_html(judged_run(desk).result(), edited)
    assert "something_else" not in html
    assert "augment(x)" in html


def test_marks_have_words_for_those_who_do_not_see_them(desk: Desk) -> None:
    page = page_of(judged_run(desk, **on_gpus()))
    plots = [attributes for tag, attributes in page.elements if tag == "svg" and "aria-hidden" not in attributes]
    assert plots
    assert all(attributes.get("role") == "img" and attributes.get("aria-label") for attributes in plots)
    scrolled = [attributes for _, attributes in page.elements if attributes.get("class") == "scroll"]
    assert scrolled
    assert all(attributes["tabindex"] == "0" and attributes["aria-label"] for attributes in scrolled)
    assert "step 1: 49 ms, data wait 29.4 ms, host stalls 4.9 ms" in page.text


def test_what_was_not_measured_makes_no_section_and_no_zero(desk: Desk) -> None:
    nothing = measured(
        steps=Steps(measured=0, warmup=0, median_s=None, p90_s=None),
        shares=Shares(**dict.fromkeys(Shares.model_fields)),
        bottleneck=Bottleneck(kind="insufficient", score=0.0, why=[], next=[]),
        loader=None,
        lines=[],
        timeline=[],
    )
    page = page_of(Run(desk, nothing))
    assert not {"shares", "lines", "gpu", "ranks", "run"} & set(page.values("id"))
    assert not re.search(r"\b0(\.0)? (ms|%|W)", page.text)
    assert "no NVIDIA driver library" in page.text


def test_a_gap_in_a_curve_stays_one(desk: Desk) -> None:
    points = [
        GpuPoint(start_s=float(time), index=0, util=util, power_w=None, memory_used_bytes=None)
        for time, util in enumerate([0.1, 0.2, None, 0.4, 0.5, None, 0.6])
    ]
    html = render_html(Run(desk, measured(**on_gpus(1) | {"gpu_timeline": points})).result(), Run(desk).view)
    assert html.count("<polyline") == 3
    assert "Power over" not in html


def test_many_steps_and_samples_make_no_larger_a_page(desk: Desk) -> None:
    html = render_html(large_run(desk).result(), Run(desk).view)
    assert len(html) < 1_500_000
    assert "Each bar is the mean of up to 16 steps." in html


HOSTILE = [
    pytest.param("</script><script>alert(1)</script>", id="a script"),
    pytest.param("</style><style>*{display:none}", id="a style"),
    pytest.param("\"><img src=x onerror=alert(1)>'", id="the end of an attribute"),
    pytest.param("\u202egnp.\u2066exe\u200f", id="marks that turn the writing"),
    pytest.param("<!-- & &lt; ]]> $title ${body}", id="what markup and templates mean something by"),
    pytest.param("\x00\x1b[31m\x07", id="control characters"),
]


def hostile_run(desk: Desk, hostile: str) -> tuple[ProbeResult, View]:
    """A run that is made of hostile text wherever text can be."""
    name = hostile.replace("/", "\u2215").replace("\x00", "")
    path = desk.write(f"{name}.py", f"x = '''{hostile}'''\n" * 3)
    line = LineCost(
        filename=str(path),
        row=2,
        what="print",
        ms_per_step=1.0,
        share=0.1,
        calls_per_step=1.0,
        in_workers=False,
        source="agent",
    )
    base = measured(**on_gpus())
    gpus = [gpu.model_copy(update={"name": hostile}) for gpu in base.environment.gpus]
    changes = {"missing": {hostile: hostile}, "python": hostile, "host": hostile, "gpus": gpus}
    run = judged_run(
        desk,
        **on_gpus()
        | {
            "environment": base.environment.model_copy(update=changes),
            "command": ["python", hostile],
            "started": hostile,
            "lines": [line],
            "bottleneck": Bottleneck(kind="data", score=0.5, why=[hostile], next=[hostile]),
            "steps": base.steps.model_copy(update={"label": hostile}),
        },
    )
    run.judge(path, replace(CONFIRMED, note=hostile), place=(1, 1, 1, 5), message=hostile, name=hostile)
    run.judged[-1] = replace(run.judged[-1], url=f"javascript:alert(1)//{hostile}")
    return run.result(), run.view


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_the_job_is_made_of_is_no_markup(desk: Desk, hostile: str) -> None:
    result, view = hostile_run(desk, hostile)
    html = render_html(result, view, comparison=compare(result, result))
    page = Page(html)
    assert {"script", "img"}.isdisjoint(tag for tag, _ in page.elements)
    assert [tag for tag, _ in page.elements].count("style") == 1
    assert not [value for value in page.values("href") if value.startswith("javascript")]
    assert not [name for _, listed in page.elements for name in listed if name.startswith("on")]
    assert not {"\u202e", "\u2066", "\u200f", "\x00", "\x1b", "\x07"} & set(html)
    visible = "".join(c if c.isprintable() else "" for c in hostile)
    assert visible in re.sub("[\ufffd\u2400-\u241f]", "", page.text)


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Chromium]:
    program = chromium.program()
    if program is None and os.environ.get("CI") != "true":
        pytest.skip("needs chromium")
    assert program is not None, "chromium is not there"
    with chromium.running(program) as started:
        yield started


LOOKS = [
    pytest.param({"width": 1280}, id="desktop"),
    pytest.param({"width": 1280, "scheme": "dark"}, id="desktop, dark"),
    pytest.param({"width": 360, "height": 740}, id="phone"),
    pytest.param({"width": 360, "height": 740, "scheme": "dark"}, id="phone, dark"),
    pytest.param({"width": 794, "media": "print"}, id="paper"),
    pytest.param({"width": 1280, "scripts": False}, id="without scripts"),
]
OPEN_ALL = "document.querySelectorAll('details').forEach(one => one.open = true)"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SQUASHED = """[...document.querySelectorAll("caption, th, td, p, li, dd, summary")]
  .filter(one => one.textContent.trim().length > 4 && one.getClientRects().length && one.clientWidth < 30).length"""
"""Texts that stand letter below letter."""
CONTRAST = """(() => {
  const light = text => {
    const part = text.match(/[\\d.]+/g).slice(0, 3).map(Number).map(value => value / 255)
      .map(value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const behind = one => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return light(colour);
    }
    return 1;
  };
  const ratios = [...document.querySelectorAll("body *")]
    .filter(one => [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
    .map(one => [light(getComputedStyle(one).color), behind(one)])
    .map(([one, other]) => (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05));
  return Math.min(...ratios);
})()"""
"""The weakest contrast between a text and what is behind it, as WCAG 2 reckons it."""


CUT_OFF = """[...document.querySelectorAll('.code .about')].filter((said) =>
  said.getBoundingClientRect().right > said.closest('.scroll').getBoundingClientRect().right + 1).length"""
"""What is said of lines of code, and is not to be read without scrolling sideways."""


@pytest.mark.parametrize("look", LOOKS)
def test_a_browser_shows_it_whole_and_has_nothing_to_say(
    browser: chromium.Chromium, desk: Desk, tmp_path: Path, look: dict[str, Any]
) -> None:
    run = large_run(desk)
    file = tmp_path / "report.html"
    file.write_text(render_html(run.result(), run.view, comparison=compare(run.result(), run.result())), "utf-8")
    shown = browser.show(file, **look)
    assert (shown.requests, shown.trouble) == ([file.as_uri()], [])
    shown.evaluate(OPEN_ALL)
    assert shown.evaluate(OVERFLOW) == 0
    assert shown.evaluate(CUT_OFF) == 0
    assert shown.evaluate("document.querySelectorAll('section').length") == 10
    assert shown.evaluate("getComputedStyle(document.querySelector('.plot')).height") == "144px"
    assert shown.evaluate("[...document.querySelectorAll('.plot rect')][0].getBoundingClientRect().height") > 10
    assert shown.evaluate(SQUASHED) == 0
    assert shown.evaluate(CONTRAST) >= 4.5


def test_folded_findings_are_on_paper_too(browser: chromium.Chromium, desk: Desk, tmp_path: Path) -> None:
    run = judged_run(desk)
    file = tmp_path / "report.html"
    file.write_text(render_html(run.result(), run.view), "utf-8")
    shown = browser.show(file, media="print")
    heights = "[...document.querySelectorAll('#findings table')].map(one => one.getBoundingClientRect().height)"
    assert all(height > 10 for height in shown.evaluate(heights))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_does_nothing_in_a_browser(
    browser: chromium.Chromium, desk: Desk, tmp_path: Path, hostile: str
) -> None:
    file = tmp_path / "report.html"
    file.write_text(render_html(*hostile_run(desk, hostile)), "utf-8")
    shown = browser.show(file)
    assert (shown.requests, shown.trouble) == ([file.as_uri()], [])
    assert shown.evaluate("document.querySelectorAll('script, img').length") == 0
    assert shown.evaluate("getComputedStyle(document.body).display") == "block"
