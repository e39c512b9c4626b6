"""The server's texts are those of the client, whatever is typed and however columns are counted: what it shows equals a
cold check of the client's text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from language_client import Abilities, Editor, Seen
from programs import QUIET_UTILS, TRAIN
from random_texts import splice

from trainlint.lint.engine import CheckOptions, check

EXAMPLES = Path(__file__).parents[2] / "examples"
HARD = TRAIN.replace("history = []", 'history = []; 名前 = "🙂"').replace(
    "    history.append(", '    größe = "🙂é\u2028"; history.append('
)
ENCODINGS = ("utf-8", "utf-16", "utf-32")


def cold(path: Path, text: str) -> list[Seen]:
    """What a check without any memory finds in a text."""
    result = check([path], CheckOptions(texts={path: text.encode("utf-8", "surrogatepass")}, cache=False, jobs=1))
    return [
        Seen(one.finding.code, one.location.row, one.location.column, one.end_location.row, one.end_location.column)
        for one in result.findings
    ]


async def agree(editor: Editor, uri: str, path: Path) -> bool:
    """Hold what the server shows against a cold check; whether the text parses."""
    text = editor.texts[uri].text
    shown = await editor.diagnostics(uri)
    expected = cold(path, text)
    current = [editor.seen(text, one) for one in shown if "found before the last edits" not in one.message]
    assert sorted(current, key=repr) == sorted(expected, key=repr), f"in {text!r}"
    for one in shown:
        # Those from before are at places of the text as well.
        assert editor.seen(text, one).row >= 1
    return not {"TL001", "TL002"} & {one.code for one in expected}


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_random_edits_of_any_text_shift_nothing(edit, project, encoding, request):
    folder = project({"train.py": HARD, "utils.py": QUIET_UTILS})
    editor: Editor = await edit(folder, abilities=replace(Abilities(), encodings=(encoding,)))
    assert editor.encoding == encoding
    path = folder / "train.py"
    uri = editor.open(path)
    random = Random(f"texts in {encoding}")
    edits = request.config.getoption("--edits") or 200
    done, parsed = 0, 0
    while done < edits:
        burst = random.choice((1, 1, 2, 5))
        if not await agree(editor, uri, path) and random.random() < 0.5:
            editor.rewrite(uri, HARD)
        else:
            parsed += 1
        for _ in range(burst):
            text = editor.texts[uri].text
            editor.splice(uri, splice(random, text, lone=random.random() < 0.02))
        done += burst
    await agree(editor, uri, path)
    assert parsed > 0


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_halves_of_pairs_put_no_text_out_of_step(edit, project, encoding):
    folder = project({"train.py": HARD, "utils.py": QUIET_UTILS})
    editor: Editor = await edit(folder, abilities=replace(Abilities(), encodings=(encoding,)))
    uri, path = editor.open(folder / "train.py"), folder / "train.py"
    assert await agree(editor, uri, path)
    at = HARD.index("🙂")
    editor.splice(uri, (at, at, "\ud83d"), (at + 1, at + 1, "x"), (0, 0, "\n"))
    await agree(editor, uri, path)
    editor.splice(uri, (at + 1, at + 2, ""))
    assert await agree(editor, uri, path)
    assert editor.messages == []


REAL = sorted(EXAMPLES.glob("*/train.py"))[:3]


@pytest.mark.parametrize("source", REAL, ids=[path.parent.name for path in REAL])
async def test_after_random_edits_of_a_real_program_a_cold_check_finds_the_same(edit, project, source, request):
    files = {str(file.relative_to(source.parent)): file.read_text() for file in source.parent.rglob("*.py")}
    folder = project(files)
    editor: Editor = await edit(folder)
    path = folder / "train.py"
    uri = editor.open(path)
    random = Random(f"programs {source.parent.name}")
    for number in range(request.config.getoption("--edits") or 20):
        text = editor.texts[uri].text
        lines = text.splitlines(keepends=True)
        row = random.randrange(len(lines))
        start = sum(map(len, lines[:row]))
        line = lines[row]
        # Lines are doubled, dropped and commented out, and words are changed, as when somebody works on them.
        new = random.choice((line + line, "", line.replace("(", "(  ", 1), f"# {line}", line.replace("loss", "los")))
        editor.splice(uri, (start, start + len(line), new))
        if not await agree(editor, uri, path) and number % 2:
            editor.rewrite(uri, files["train.py"])
            await agree(editor, uri, path)


async def test_positions_that_no_text_has_do_no_harm(edit, project):
    folder = project({"train.py": HARD, "utils.py": QUIET_UTILS})
    editor: Editor = await edit(folder)
    path = folder / "train.py"
    uri = editor.open(path)
    editor.splice_at(uri, ((5, 10_000), (5, 10_000)), "")
    editor.splice_at(uri, ((10_000, 3), (20_000, 3)), "# end\n")
    editor.texts[uri].text += "# end\n"
    assert await agree(editor, uri, path)


async def test_a_client_that_names_no_encoding_counts_in_utf_16(edit, project):
    folder = project({"train.py": HARD, "utils.py": QUIET_UTILS})
    editor: Editor = await edit(folder, abilities=replace(Abilities(), encodings=None))
    assert editor.encoding == "utf-16"
    assert await agree(editor, editor.open(folder / "train.py"), folder / "train.py")


async def test_the_first_encoding_that_both_know_is_taken(edit, project):
    folder = project({"train.py": HARD, "utils.py": QUIET_UTILS})
    editor: Editor = await edit(folder, abilities=replace(Abilities(), encodings=("utf-32", "utf-8", "utf-16")))
    assert editor.encoding == "utf-32"
