"""Notebooks: all Python cells are one program."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from language_client import Abilities, Editor, Text, position
from lsprotocol import types
from programs import SYNCING_UTILS, TRAIN

HEAD, LOOP = TRAIN.split("history = []\n")
CELLS = [
    HEAD.replace("from utils import value_of\n", ""),
    "def value_of(tensor):\n    return tensor\n",
    "history = []\n" + LOOP,
]
PUSHED = Abilities(pulls=False)


@dataclass
class Notebook:
    """A notebook in an editor."""

    editor: Editor
    uri: str
    cells: list[str] = field(default_factory=list)
    version: int = 1

    @classmethod
    def open(cls, editor: Editor, path: Path, cells: list[str]) -> Notebook:
        notebook = cls(editor, path.as_uri())
        notebook.tell_opened([notebook._new(f"cell{number}", text) for number, text in enumerate(cells, start=1)])
        return notebook

    def tell_opened(self, items: list[types.TextDocumentItem]) -> None:
        cells = [self._cell(item.uri) for item in items]
        document = types.NotebookDocument(self.uri, "jupyter-notebook", 1, cells)
        self.editor.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(document, items))

    def _new(self, name: str, text: str) -> types.TextDocumentItem:
        uri = f"{self.uri.replace('file:', 'vscode-notebook-cell:')}#{name}"
        self.cells.append(uri)
        self.editor.texts[uri] = Text(uri, 1, text)
        return types.TextDocumentItem(uri, "python", 1, text)

    def _cell(self, uri: str) -> types.NotebookCell:
        return types.NotebookCell(types.NotebookCellKind.Code, uri)

    def _tell(self, changes: types.NotebookDocumentCellChanges | None) -> None:
        self.version += 1
        self.editor.client.notebook_document_did_change(
            types.DidChangeNotebookDocumentParams(
                types.VersionedNotebookDocumentIdentifier(self.version, self.uri),
                types.NotebookDocumentChangeEvent(cells=changes),
            )
        )

    def structure(self, start: int, deleted: int, cells: list[str], opened: list[types.TextDocumentItem] = []) -> None:  # noqa: B006
        """Replace cells, by address; those that are gone then are closed."""
        before = list(self.cells)
        self.cells[start : start + deleted] = cells
        closed = [types.TextDocumentIdentifier(uri) for uri in before if uri not in self.cells]
        array = types.NotebookCellArrayChange(start, deleted, [self._cell(uri) for uri in cells])
        self._tell(
            types.NotebookDocumentCellChanges(
                structure=types.NotebookDocumentCellChangeStructure(array, did_open=opened, did_close=closed)
            )
        )

    def add(self, start: int, text: str, name: str) -> str:
        item = self._new(name, text)
        self.cells.remove(item.uri)
        self.structure(start, 0, [item.uri], [item])
        return item.uri

    def edit(self, cell: int, old: str, new: str) -> None:
        """Replace a piece of a cell, by its number from 1."""
        text = self.editor.texts[self.cells[cell - 1]]
        start = text.text.index(old)
        spots = [position(text.text, at, self.editor.encoding) for at in (start, start + len(old))]
        place = types.Range(*spots)
        text.text, text.version = text.text.replace(old, new, 1), text.version + 1
        change = types.NotebookDocumentCellContentChanges(
            types.VersionedTextDocumentIdentifier(text.version, text.uri),
            [types.TextDocumentContentChangePartial(range=place, text=new)],
        )
        self._tell(types.NotebookDocumentCellChanges(text_content=[change]))

    async def found(self) -> list[list[str]]:
        """What is shown in each cell."""
        return [await self.editor.found(uri) for uri in self.cells]

    def close(self) -> None:
        cells = [types.TextDocumentIdentifier(uri) for uri in self.cells]
        for uri in self.cells:
            self.editor.texts.pop(uri, None)
        identifier = types.NotebookDocumentIdentifier(self.uri)
        self.editor.client.notebook_document_did_close(types.DidCloseNotebookDocumentParams(identifier, cells))


@pytest.fixture
def notebook(edit, project):
    opened: list[Notebook] = []

    async def open(cells: list[str], *, abilities: Abilities = Abilities(), **files: str) -> Notebook:  # noqa: B008
        folder = project(files)
        opened.append(Notebook.open(await edit(folder, abilities=abilities), folder / "train.ipynb", cells))
        return opened[-1]

    yield open
    for one in opened:
        one.close()


async def test_findings_are_in_their_cells_and_follow_edits_in_others(notebook):
    book: Notebook = await notebook(CELLS)
    assert await book.found() == [["8 TL104"], [], ["8 TL201"]]
    (sync,) = await book.editor.diagnostics(book.cells[2])
    loop = sync.related_information[0]
    assert (loop.location.uri, loop.location.range.start.line) == (book.cells[2], 1)
    book.edit(2, "return tensor", "return tensor.item()")
    assert await book.found() == [["8 TL104"], ["2 TL201"], []]
    book.edit(1, "import torch\n", "import torch\n\n\n")
    assert await book.found() == [["10 TL104"], ["2 TL201"], []]


async def test_cells_are_added_removed_and_moved(notebook):
    book: Notebook = await notebook(CELLS)
    assert await book.found() == [["8 TL104"], [], ["8 TL201"]]
    added = book.add(2, "def value_of(tensor):\n    return tensor.item()\n", "added")
    assert await book.found() == [["8 TL104"], [], ["2 TL201"], []]
    # Moved: what is defined last counts.
    book.structure(1, 2, [added, book.cells[1]])
    assert await book.found() == [["8 TL104"], [], [], ["8 TL201"]]
    book.structure(1, 1, [])
    assert await book.found() == [["8 TL104"], [], ["8 TL201"]]
    book.structure(0, 3, [])
    assert book.cells == []
    for number, text in enumerate(CELLS):
        book.add(number, text, f"again{number}")
    assert await book.found() == [["8 TL104"], [], ["8 TL201"]]


async def test_magics_are_no_mistakes_and_shift_nothing(notebook):
    cells = [
        "%pip install torch\n!nvidia-smi\n",
        "%%time\n" + CELLS[0],
        *CELLS[1:],
        "%%bash\nfor x in *; do echo $x; done\n",
    ]
    book: Notebook = await notebook(cells)
    assert await book.found() == [[], ["9 TL104"], [], ["8 TL201"], []]


async def test_a_cell_that_does_not_parse_keeps_the_findings_of_all_cells(notebook):
    book: Notebook = await notebook(CELLS)
    await book.found()
    book.edit(2, "def value_of(tensor):", "\ndef value_of(tensor:")
    assert await book.found() == [["8 TL104"], ["2 TL001"], ["8 TL201"]]
    book.edit(3, "history = []\n", "\nhistory = []\n")
    assert await book.found() == [["8 TL104"], ["2 TL001"], ["9 TL201"]]
    book.edit(2, "(tensor:", "(tensor):")
    assert await book.found() == [["8 TL104"], [], ["9 TL201"]]


async def test_actions_edit_their_cells(notebook):
    book: Notebook = await notebook(CELLS)
    await book.found()
    editor = book.editor
    offered = await editor.actions(book.cells[0], only=["quickfix"])
    edit = (await editor.resolve(offered[0])).edit
    (change,) = edit.document_changes
    assert (change.text_document.uri, change.text_document.version) == (book.cells[0], 1)
    assert "pin_memory=True" in "".join(one.new_text for one in change.edits)
    offered = await editor.actions(book.cells[2], only=["quickfix"])
    ignore = next(one for one in offered if one.title == "Ignore TL201 on this line")
    (change,) = (await editor.resolve(ignore)).edit.document_changes
    assert change.text_document.uri == book.cells[2]
    assert [(one.new_text, one.range.start.line) for one in change.edits] == [("  # trainlint: ignore[TL201]", 7)]
    everywhere = next(one for one in offered if one.title == "Ignore TL201 in this file")
    (change,) = (await editor.resolve(everywhere)).edit.document_changes
    assert change.text_document.uri == book.cells[0]
    assert [(one.new_text, one.range.start.line) for one in change.edits] == [("# trainlint: ignore-file[TL201]\n", 0)]


async def test_an_ignored_line_stays_ignored_at_the_end_of_a_cell(notebook):
    book: Notebook = await notebook([*CELLS[:2], CELLS[2].rstrip("\n")])
    assert await book.found() == [["8 TL104"], [], ["8 TL201"]]
    ignore = next(one for one in await book.editor.actions(book.cells[2]) if one.title == "Ignore TL201 on this line")
    (change,) = (await book.editor.resolve(ignore)).edit.document_changes
    (edit,) = change.edits
    book.edit(3, "float(value_of(loss)))", "float(value_of(loss)))" + edit.new_text)
    assert await book.found() == [["8 TL104"], [], []]


async def test_hovers_and_fixing_all_work_in_cells(notebook):
    book: Notebook = await notebook(CELLS)
    await book.found()
    hover = await book.editor.hover(book.cells[2], "float(")
    assert "sync-in-step" in hover.contents.value
    offered = await book.editor.actions(book.cells[1], only=["source.fixAll.trainlint"])
    (change,) = (await book.editor.resolve(offered[0])).edit.document_changes
    assert change.text_document.uri == book.cells[0]


async def test_a_notebook_imports_open_files(notebook):
    book: Notebook = await notebook(
        [CELLS[0] + "from utils import value_of\n", CELLS[2]], **{"utils.py": SYNCING_UTILS}
    )
    assert await book.found() == [["8 TL104"], []]
    utils = book.editor.open(Path(book.uri.removeprefix("file://")).parent / "utils.py")
    book.editor.replace(utils, "tensor.item()", "tensor")
    await book.editor.becomes(book.cells[1], ["8 TL201"])


async def test_clients_that_do_not_ask_are_told_cell_by_cell(notebook):
    book: Notebook = await notebook(CELLS, abilities=PUSHED)
    pushed, cells = book.editor.pushed, list(book.cells)

    def shown(codes: list[list[str]]) -> bool:
        return [[one.code for one in pushed[uri].diagnostics] for uri in cells if uri in pushed] == codes

    await book.editor.until(lambda: shown([["TL104"], [], ["TL201"]]))
    book.structure(2, 1, [])
    await book.editor.until(lambda: shown([["TL104"], [], []]))
    book.structure(0, 1, [])
    await book.editor.until(lambda: shown([[], [], []]))


async def test_an_untitled_notebook_is_checked(edit, project):
    editor: Editor = await edit(project({}))
    book = Notebook(editor, "untitled:Untitled-1.ipynb")
    items = [book._new(f"cell{number}", text) for number, text in enumerate(CELLS, start=1)]
    book.tell_opened(items)
    assert await book.found() == [["8 TL104"], [], ["8 TL201"]]
    book.close()


async def test_wide_characters_in_cells_shift_nothing(notebook):
    abilities = replace(Abilities(), encodings=("utf-8",))
    cells = [*CELLS[:2], CELLS[2].replace("    history.append(", '    größe = "🙂é"; history.append(')]
    book: Notebook = await notebook(cells, abilities=abilities)
    (found,) = await book.editor.diagnostics(book.cells[2])
    seen = book.editor.seen(cells[2], found)
    assert cells[2].splitlines()[7][seen.column - 1 : seen.end_column - 1] == "float(value_of(loss))"
