"""What the client opens, edits, saves and closes."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types

from trainlint.lsp.addresses import path_of
from trainlint.lsp.documents import OpenFile, OpenNotebook, OpenText, is_notebook
from trainlint.lsp.server import Server


def register_synchronization(server: Server) -> None:
    """Register handlers of changes of texts."""
    session = server.session

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def open_file(params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        path = path_of(item.uri) or _place_of_unsaved(server, item.uri)
        if item.language_id == "python" or path.suffix == ".py":
            opened = OpenFile(item.uri, path, item.version, item.text)
            session.documents.open(opened)
            session.changed(opened)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def change_file(params: types.DidChangeTextDocumentParams) -> None:
        opened = session.documents.get(params.text_document.uri)
        if isinstance(opened, OpenFile):
            opened.change(params.content_changes, params.text_document.version, session.units)
            session.changed(opened)
            server.note_edit()

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def save_file(params: types.DidSaveTextDocumentParams) -> None:
        opened = session.documents.get(params.text_document.uri)
        if opened is not None:
            session.changed(opened)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def close_file(params: types.DidCloseTextDocumentParams) -> None:
        _close(params.text_document.uri)

    def _close(uri: str) -> None:
        opened = session.documents.close(uri)
        if opened is None:
            return
        session.closed(opened)
        if not server.pulls:
            for text in opened.texts:
                server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(text.uri, []))

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def open_notebook(params: types.DidOpenNotebookDocumentParams) -> None:
        item = params.notebook_document
        path = path_of(item.uri) or _place_of_unsaved(server, item.uri)
        texts = {text.uri: OpenText(text.uri, text.version, text.text) for text in params.cell_text_documents}
        cells = [texts[cell.document] for cell in item.cells if cell.document in texts]
        if is_notebook(path):
            opened = OpenNotebook(item.uri, path, item.version, cells)
            session.documents.open(opened)
            session.changed(opened)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def change_notebook(params: types.DidChangeNotebookDocumentParams) -> None:
        opened = session.documents.get(params.notebook_document.uri)
        if isinstance(opened, OpenNotebook):
            opened.version = params.notebook_document.version
            if params.change.cells is not None:
                _change_cells(server, opened, params.change.cells)
            session.documents.adopt(opened)
            session.changed(opened)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def close_notebook(params: types.DidCloseNotebookDocumentParams) -> None:
        _close(params.notebook_document.uri)


def _change_cells(server: Server, notebook: OpenNotebook, changes: types.NotebookDocumentCellChanges) -> None:
    structure = changes.structure
    if structure is not None:
        known = {cell.uri: cell for cell in notebook.cells}
        known |= {text.uri: OpenText(text.uri, text.version, text.text) for text in structure.did_open or ()}
        array = structure.array
        new = [known[cell.document] for cell in array.cells or () if cell.document in known]
        notebook.cells[array.start : array.start + array.delete_count] = new
        for removed in structure.did_close or ():
            if not server.pulls:
                server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(removed.uri, []))
    cells = {cell.uri: cell for cell in notebook.cells}
    for change in changes.text_content or ():
        if (cell := cells.get(change.document.uri)) is not None:
            cell.change(change.changes, change.document.version, server.session.units)


def _place_of_unsaved(server: Server, uri: str) -> Path:
    """A path for what has none yet: in the first folder of the workspace."""
    folders = [folder.path for folder in server.session.folders.values() if folder.path is not None]
    name = "".join(character if character.isalnum() else "-" for character in uri).strip("-")
    suffix = ".ipynb" if uri.endswith(".ipynb") else ".py"
    return (folders[0] if folders else Path.cwd()) / f"{name}{suffix}"
