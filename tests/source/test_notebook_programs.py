"""Notebooks as programs: what becomes of cells and magics, where rows are, and what writing back leaves alone."""

from __future__ import annotations

import ast
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainlint.fixes.edits import apply_edits
from trainlint.fixes.realize import realize
from trainlint.fixes.recipe import Applicability, EnsureImport, Fix
from trainlint.semantics.context import Site
from trainlint.source.documents import NotParsed, Place, Unreadable, Unwritable, decode
from trainlint.source.notebooks import Notebook

PATH = Path("train.ipynb")


def code(source: str | list[str]) -> dict[str, Any]:
    lines = source.splitlines(keepends=True) if isinstance(source, str) else source
    return {"cell_type": "code", "execution_count": 3, "metadata": {"b": 1, "a": 2}, "outputs": [], "source": lines}


def text_of(*cells: str | dict[str, Any], **members: Any) -> str:
    notebook = {"cells": [code(cell) if isinstance(cell, str) else cell for cell in cells], "metadata": {}}
    return json.dumps(notebook | {"nbformat": 4, "nbformat_minor": 5} | members, indent=1, ensure_ascii=False) + "\n"


def opened(*cells: str | dict[str, Any], **members: Any) -> Notebook:
    document = decode(PATH, text_of(*cells, **members).encode())
    assert isinstance(document, Notebook)
    return document


PROGRAMS = {
    "cells in their order": (["a = 1", "b = 2\n"], "a = 1\n#~cell 2~\nb = 2\n\n"),
    "a line magic": (["%matplotlib inline\na = 1"], "#~0~\na = 1\n"),
    "a shell line": (["!pip install 'torch"], "#~0~\n"),
    "lines that a magic goes on over": (["!pip install \\\n  torch\na = 1"], "#~0~\n#~1~\na = 1\n"),
    "a magic that ends in a backslash": (["!dir C:\\"], "#~0~\n"),
    "a magic in a block": (["if a:\n    !ls\n    b"], "if a:\n    pass  #~0~\n    b\n"),
    "what a shell line prints": (["files = !ls *.py"], "files = get_ipython()  #~0~\n"),
    "what a magic returns": (["out = %timeit -o f()"], "out = get_ipython()  #~0~\n"),
    "a question before": (["?print"], "#~0~\n"),
    "a question after": (["torch.nn??\na = 1"], "#~0~\na = 1\n"),
    "questions of both kinds": (["??x\nfoo.bar?"], "#~0~\n#~1~\n"),
    "magics without a sign": (["pip install torch\nif a:\n    cd ..\nls = 1"], "#~0~\nif a:\n    pass  #~1~\nls = 1\n"),
    "names of magics": (["ls - 1\npip\ncd if cd else ls\ncat in ls"], "ls - 1\npip\ncd if cd else ls\ncat in ls\n"),
    "autoreload": (["%load_ext autoreload\n%autoreload 2"], "#~0~\n#~1~\n"),
    "a page": (["%%html\n<b>", "%%writefile a.py\nx = ("], ""),
    "Colab's forms": (
        ["#@title A { run: 'auto' }\na = 1  #@param {}"],
        "#@title A { run: 'auto' }\na = 1  #@param {}\n",
    ),
    "asynchronous code": (
        ["async for a in b: pass\nasync with c: pass"],
        "async for a in b: pass\nasync with c: pass\n",
    ),
    "another order of execution": (
        [code("a = 1") | {"execution_count": 2}, code("b") | {"execution_count": 1}],
        "a = 1\n#~cell 2~\nb\n",
    ),
    "a call by a comma": ([",f a b"], "#~0~\n"),
    "a percent sign within an expression": (["a = (b\n  % c)"], "a = (b\n  % c)\n"),
    "a percent sign after a backslash": (["a = b \\\n  % c"], "a = b \\\n  % c\n"),
    "a magic within a string": (['a = """\n%time\n"""'], 'a = """\n%time\n"""\n'),
    "a question in a comment": (["a = 1  # why?"], "a = 1  # why?\n"),
    "a format string": (["a = b if c != d else '%s' % e"], "a = b if c != d else '%s' % e\n"),
    "a timed cell": (["%%time\na = 1"], "a = 1\n"),
    "a cell magic after empty rows": (["\n\n%%capture out\na = 1"], "a = 1\n"),
    "a cell in another language": (["%%bash\nls 'it", "a = 1"], "a = 1\n"),
    "an indented cell": (["    a = 1", "b = 1"], "b = 1\n"),
    "an empty cell": (["", " \n", "a = 1"], "a = 1\n"),
    "a mark in the code": (["a = 1  #~", "!ls"], "a = 1  #~\n#~~cell 2~\n#~~0~\n"),
    "top-level await": (["await f()"], "await f()\n"),
    "text and raw cells": (
        [{"cell_type": "markdown", "source": ["# Title"]}, {"cell_type": "raw", "source": "x"}, "a = 1"],
        "a = 1\n",
    ),
    "a source of one piece": ([code("") | {"source": "a = 1\nb = 2"}], "a = 1\nb = 2\n"),
    "no cells": ([], ""),
}


@pytest.mark.parametrize(("cells", "program"), PROGRAMS.values(), ids=PROGRAMS)
def test_the_program_of(cells: list[str | dict[str, Any]], program: str) -> None:
    document = opened(*cells)
    assert document.text == program
    compile(document.text, "cells", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


LANGUAGES: dict[str, tuple[dict[str, Any], bool]] = {
    "no metadata": ({}, True),
    "python": ({"language_info": {"name": "python"}}, True),
    "ipython's kernel": ({"kernelspec": {"language": "python", "name": "x"}}, True),
    "r": ({"language_info": {"name": "R"}}, False),
    "julia's kernel": ({"kernelspec": {"language": "julia"}}, False),
    "R in Colab": ({"colab": {}, "kernelspec": {"name": "ir", "display_name": "R"}}, False),
    "Python in Colab": ({"colab": {}, "kernelspec": {"name": "python3"}}, True),
    "a version of Julia": ({"kernelspec": {"name": "julia-1.9"}}, False),
    "Scala on Databricks": ({"application/vnd.databricks.v1+notebook": {"language": "scala"}}, False),
    "odd metadata": ({"language_info": 3, "kernelspec": []}, True),
}


@pytest.mark.parametrize(("metadata", "is_python"), LANGUAGES.values(), ids=LANGUAGES)
def test_only_python_is_read(metadata: dict[str, Any], is_python: bool) -> None:
    assert opened("a <- 1", metadata=metadata).text == ("a <- 1\n" if is_python else "")


def test_a_magic_of_databricks_makes_a_cell_another_language() -> None:
    cells = ["%md\n# Title (", "\n%sql\nselect (", "%python\na = 1", "%run ./x\nb = 2"]
    metadata = {"application/vnd.databricks.v1+notebook": {"language": "python"}}
    assert opened(*cells, metadata=metadata).text == "#~0~\na = 1\n#~cell 4~\n#~1~\nb = 2\n"


def test_many_empty_rows_are_read_in_no_time() -> None:
    start = time.perf_counter()
    assert opened("\r\n" * 20_000 + "a = 1").text.endswith("a = 1\n")
    assert opened(" \r\n" * 20_000 + "!ls").text.endswith("#~0~\n")
    assert time.perf_counter() - start < 10


def test_an_import_at_the_end_of_a_cell_leaves_no_empty_row() -> None:
    document = opened('"""Doc."""', "loader()")
    [site] = [Site(document.path, 3, 0, 3, 8, "")]
    fix = Fix(Applicability.SAFE, "Import it", (EnsureImport(site, "torch"),))
    fixed = document.encode(apply_edits(document.text, realize(fix, document.text)))
    assert [cell["source"] for cell in json.loads(fixed)["cells"]] == [
        ['"""Doc."""\n', "import torch"],
        ["loader()"],
    ]


def test_rows_are_those_of_cells() -> None:
    document = opened({"cell_type": "markdown", "source": []}, "a = 1\nb = 2", "%%time\n\nc = 3", "%%bash\nls", "d")
    rows = {line: document.place(row, 4) for row, line in enumerate(document.text.split("\n"), 1)}
    assert rows["a = 1"] == Place(2, 1, 4)
    assert rows["b = 2"] == Place(2, 2, 4)
    assert rows["c = 3"] == Place(3, 3, 4)
    assert rows["d"] == Place(5, 1, 4)
    assert document.line(3, 1) == "%%time"
    assert document.line(3, 3) == "c = 3"
    assert document.line(4, 1) == ""
    assert document.place(3, 0) == Place(2, 2, 5), "the border belongs to the end of the cell before it"


BAD = {
    "empty": (b"", NotParsed, "it is empty", (1, 1)),
    "not JSON": (b'{\n "cells": [}', NotParsed, "not valid JSON: expecting value", (2, 12)),
    "cut off": (b'{"cells": [', NotParsed, "not valid JSON", (1, 12)),
    "not UTF-8": (b'{"a":\n"\xff"}', Unreadable, "cannot be decoded at row 2", (2, None)),
    "another object": (b"{}", Unreadable, 'no list of "cells"', (None, None)),
    "a number": (b"3", Unreadable, 'no list of "cells"', (None, None)),
    "an old format": (b'{"worksheets": [], "nbformat": 3}', Unreadable, "old format", (None, None)),
    "a later format": (b'{"cells": [], "nbformat": 5}', Unreadable, "format 5, and only format 4", (None, None)),
    "a cell of no object": (b'{"cells": [3]}', Unreadable, "cell 1 is not an object", (None, None)),
    "no source": (b'{"cells": [{"cell_type": "code"}]}', Unreadable, "the source of cell 1", (None, None)),
    "an odd source": (b'{"cells":[{"cell_type":"code","source":[3]}]}', Unreadable, "source of cell 1", (None, None)),
    "a null": (b'{"cells":[{"cell_type":"code","source":"\\u0000"}]}', Unreadable, "null character in c", (None, None)),
    "half a pair": (b'{"cells":[{"cell_type":"code","source":"\\ud800"}]}', Unreadable, "surrogate", (None, None)),
    "deep nesting": (b"[" * 100_000, Unreadable, "nests too deep", (None, None)),
}


@pytest.mark.parametrize(("data", "kind", "reason", "place"), BAD.values(), ids=BAD)
def test_what_is_no_notebook_is_told(
    data: bytes, kind: type[Unreadable], reason: str, place: tuple[int | None, int | None]
) -> None:
    with pytest.raises(kind) as caught:
        decode(PATH, data)
    assert type(caught.value) is kind
    assert reason in caught.value.reason
    assert (caught.value.row, getattr(caught.value, "column", None)) == place


STYLES: dict[str, str] = {
    "jupyter's": text_of("a = 1\n!ls\nb = 'é'", "%%time\nc = 3", "%%bash\nls"),
    "one line": json.dumps(json.loads(text_of("a = 1\n!ls\nb = 'é'", "%%time\nc = 3"))),
    "four spaces, escaped": json.dumps(json.loads(text_of("a = 1\n!ls\nb = 'é'", "%%time\nc = 3")), indent=4),
    "windows line ends": text_of("a = 1\n!ls\nb = 'é'", "%%time\nc = 3").replace("\n", "\r\n"),
    "sources of one piece": text_of(code("") | {"source": "a = 1\n!ls\nb = 'é'"}, code("") | {"source": "c = 3"}),
    "odd pieces": text_of(code(["a ", "= 1\n!l", "s\n", "b = 'é'"]), "c = 3"),
    "odd escapes": text_of("a = 1\n!ls\nb = 'é'", "c = 3").replace("!ls", "\\u0021l\\u0073"),
    "a byte order mark": "\ufeff" + text_of("a = 1\n!ls\nb = 'é'", "c = 3"),
    "no line end at the end": text_of("a = 1\n!ls\nb = 'é'", "c = 3").rstrip(),
    "keys in another order": '{"nbformat": 4, "cells": [{"source": ["a = 1\\n", "!ls\\n", "b = \'é\'"],'
    ' "outputs": [1e5, {}], "cell_type": "code"}, {"source": ["c = 3"],\t"cell_type": "code"}], "x": 1.50}',
}  # fmt: skip


@pytest.mark.parametrize("text", STYLES.values(), ids=STYLES)
def test_only_changed_lines_change(text: str) -> None:
    document = decode(PATH, text.encode())
    assert document.encode(document.text) == document.data
    changed = document.encode(document.text.replace("c = 3", "c = 33"))
    assert changed == document.data.replace(b"c = 3", b"c = 33")
    again = decode(PATH, changed)
    assert again.encode(again.text.replace("c = 33", "c = 3")) == document.data


def test_rows_come_and_go() -> None:
    document = opened("import b\nx = 'ä'", "y = 1\nz = 2", "w = 3")
    program = document.text.replace("import b\n", "import a\nimport b\n").replace("y = 1\n", "").replace("w = 3\n", "")
    data = document.encode(program)
    assert [cell["source"] for cell in json.loads(data)["cells"]] == [
        ["import a\n", "import b\n", "x = 'ä'"],
        ["z = 2"],
        [],
    ]
    assert "'ä'".encode() in data
    lines = document.data.decode().splitlines()
    assert [line for line in data.decode().splitlines() if line not in lines] == [
        '    "import a\\n",',
        '   "source": []',
    ]


LOST = {
    "a border": ("#~cell 2~\n", "would lose the border between two cells"),
    "a magic": ("#~0~\n", "has a magic command in the middle of what would change"),
}


@pytest.mark.parametrize(("gone", "reason"), LOST.values(), ids=LOST)
def test_what_would_lose_something_is_not_written(gone: str, reason: str) -> None:
    document = opened("!ls\na = 1", "b = 2")
    with pytest.raises(Unwritable, match=reason):
        document.encode(document.text.replace(gone, ""))


def test_magics_move_with_their_block() -> None:
    document = opened("for a in b:\n    !ls \\\n  -l\n    c")
    program = document.text.replace("    pass", "    if a:\n        pass").replace("    c", "        c")
    assert json.loads(document.encode(program))["cells"][0]["source"] == [
        "for a in b:\n", "    if a:\n", "        !ls \\\n", "  -l\n", "        c"
    ]  # fmt: skip


LINES = st.lists(
    st.sampled_from(["a = 1", "%time f()", "!ls 'x", "  !ls \\", "x?", "'''", "(", ")", "", "b = !c", "é", "\r", "#~"])
)


@given(st.lists(LINES, max_size=4), st.booleans())
@example([["a = 1", "\r"], ["a = 1", "\r"], ["a = 1"]], False)
def test_any_notebook_keeps_its_rows_and_its_bytes(cells: list[list[str]], whole: bool) -> None:
    texts = ["\n".join(lines) for lines in cells]
    document = opened(*[code("") | {"source": text} if whole else text for text in texts])
    for row, line in enumerate(document.text.split("\n"), 1):
        place = document.place(row, 0)
        if document.mark not in line and "\r" not in document.text and line:
            assert document.line(place.cell, place.row) == line
    if document.text:
        changed = document.encode(document.text + "added = 1\n")
        last = document.place(document.index.rows, 0).cell
        assert last is not None
        before, after = json.loads(document.data), json.loads(changed)
        source = "".join(before["cells"][last - 1]["source"]) + "\nadded = 1"
        assert "".join(after["cells"][last - 1]["source"]) == source
        after["cells"][last - 1]["source"] = before["cells"][last - 1]["source"]
        assert before == after
