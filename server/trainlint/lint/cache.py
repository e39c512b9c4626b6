"""What earlier runs found out, kept in one SQLite file per project.

An entry is text under a kind and a key that names all it depends on, so that nothing in the cache can be out of date;
a checksum tells whether it is what was written. The cache never matters for the result: whatever is wrong with it, a
run goes on without. Processes share the file; each reads what it asks for and writes once, at its end.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainlint.source.system_errors import reason_of

if TYPE_CHECKING:
    import sqlite3

FOLDER = ".trainlint_cache"
FILE = "cache.sqlite3"
FORMAT = 1
"""Number of the layout; a file with another one is replaced."""
KEPT_RUNS = 200
"""Runs that wrote something, after which an entry that none of them used is dropped."""
_TOUCH_EVERY = 20
"""Such runs between two notes that an entry is still in use: most runs need not write for entries that they read."""
_BUSY_SECONDS = 2.0
_IN_ONE_QUERY = 500
_CHECKSUM_BYTES = 8
_TAG = """Signature: 8a477f597d28d172789f06886806bc55
# This folder is a cache of trainlint; it can be removed at any time.
"""


class Cache:
    """Entries of the cache in one folder; without a folder, those of this run alone."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._connection: sqlite3.Connection | None = None
        self._opened = False
        self._new: dict[tuple[str, bytes], str] = {}
        self._used: set[tuple[str, bytes]] = set()
        self._run: int | None = None
        self.warning: str | None = None
        """What keeps the cache from being used, for the user."""

    def get(self, kind: str, key: bytes) -> str | None:
        """Return the entry, or None."""
        return dict(self.get_many(kind, [key])).get(key)

    def get_many(self, kind: str, keys: Iterable[bytes]) -> Iterator[tuple[bytes, str]]:
        """Yield the entries that are there, by key."""
        wanted = []
        for key in keys:
            if (value := self._new.get((kind, key))) is not None:
                yield key, value
            else:
                wanted.append(key)
        connection = self._open() if wanted else None
        if connection is None:
            return
        for start in range(0, len(wanted), _IN_ONE_QUERY):
            part = wanted[start : start + _IN_ONE_QUERY]
            for key, value, checksum in self._rows(connection, "key, value, checksum", kind, part):
                if checksum == _checksum(kind, key, value):
                    self._used.add((kind, key))
                    yield key, value

    def holds(self, kind: str, keys: Iterable[bytes]) -> set[bytes]:
        """Return those of the keys for which there is an entry, unread and unverified."""
        wanted = list(keys)
        found = {key for key in wanted if (kind, key) in self._new}
        connection = self._open()
        if connection is not None:
            for start in range(0, len(wanted), _IN_ONE_QUERY):
                part = wanted[start : start + _IN_ONE_QUERY]
                found.update(key for (key,) in self._rows(connection, "key", kind, part))
        return found

    def put(self, kind: str, key: bytes, value: str) -> None:
        """Keep an entry; it reaches the disk once `save` is called."""
        self._new[kind, key] = value

    def note_use(self, kind: str, keys: Iterable[bytes]) -> None:
        """Keep entries alive that this run would have needed, had not a later stage been answered already."""
        self._used.update((kind, key) for key in keys)

    def flush(self) -> None:
        """Write what is new to disk rather than hold it in memory; without a folder it stays there."""
        if self._new and self._folder is not None:
            connection = self._open(create=True)
            if connection is not None:
                self._write(connection)

    def save(self) -> None:
        """Write what is new, drop what has not been used for long, and close the file."""
        self.flush()
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._opened = False

    # -------------------------------------------------------------------------------------------------- the file

    def _open(self, *, create: bool = False) -> sqlite3.Connection | None:
        """The connection; None if there is no cache yet, or none that can be used."""
        if self._folder is None or (self._opened and (self._connection is not None or not create)):
            return self._connection
        self._opened = True
        file = self._folder / FILE
        if not create and not os.path.exists(file):  # noqa: PTH110 - Path.exists fails without permission
            return None
        import sqlite3

        try:
            if create:
                _make_folder(self._folder)
            self._connection = self._connect(file)
        except sqlite3.DatabaseError as error:
            if not isinstance(error, sqlite3.OperationalError):
                self._replace(file)
        except OSError as error:
            self._give_up(reason_of(error))
        return self._connection

    def _connect(self, file: Path) -> sqlite3.Connection:
        import sqlite3

        connection = sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                _create(connection)
            # Asked last, since another process may have made the tables meanwhile, and the number with them.
            if connection.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                raise sqlite3.DatabaseError("another layout")
            connection.execute("PRAGMA synchronous = OFF")
        except BaseException:
            connection.close()
            raise
        return connection

    def _replace(self, file: Path) -> None:
        """Start anew in place of a file that is no cache of this version; runs that still read it are not disturbed."""
        import sqlite3

        try:
            for name in (file.name, f"{file.name}-wal", f"{file.name}-shm"):
                (file.parent / name).unlink(missing_ok=True)
            self._connection = self._connect(file)
        except (OSError, sqlite3.Error) as error:
            self._give_up(str(error).lower())

    def _give_up(self, reason: str) -> None:
        self.warning = f"the cache in {self._folder} cannot be used ({reason}); see --cache-dir and --no-cache"
        self._folder = None

    def _rows(self, connection: sqlite3.Connection, columns: str, kind: str, keys: list[bytes]) -> list[Any]:
        import sqlite3

        marks = ",".join("?" * len(keys))
        query = f"SELECT {columns} FROM entries WHERE kind = ? AND key IN ({marks})"
        try:
            return connection.execute(query, (kind, *keys)).fetchall()
        except sqlite3.OperationalError:
            return []
        except sqlite3.DatabaseError:
            self.close()
            if self._folder is not None:
                self._replace(self._folder / FILE)
            return []

    def _write(self, connection: sqlite3.Connection) -> None:
        import sqlite3

        try:
            connection.execute("BEGIN IMMEDIATE")
            run = self._number(connection)
            connection.executemany(
                "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?)",
                [(kind, key, value, _checksum(kind, key, value), run) for (kind, key), value in self._new.items()],
            )
            if run % _TOUCH_EVERY == 0 and self._used:
                connection.executemany(
                    "UPDATE entries SET run = ? WHERE kind = ? AND key = ?", [(run, *entry) for entry in self._used]
                )
                connection.execute("DELETE FROM entries WHERE run < ?", (run - KEPT_RUNS,))
            connection.execute("COMMIT")
            self._new.clear()
        except sqlite3.OperationalError as error:
            # Entries that could not be written stay in memory, where this run finds them.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if "readonly" in str(error) or "full" in str(error):
                self._give_up(str(error).lower())
        except sqlite3.DatabaseError:
            self.close()
            if self._folder is not None:
                self._replace(self._folder / FILE)

    def _number(self, connection: sqlite3.Connection) -> int:
        """The number of this run among those that wrote something."""
        if self._run is None:
            (earlier,) = connection.execute("SELECT run FROM runs").fetchone()
            self._run = int(earlier) + 1
            connection.execute("UPDATE runs SET run = ?", (self._run,))
        return self._run


def _checksum(kind: str, key: bytes, value: str) -> bytes:
    if not isinstance(value, str) or not isinstance(key, bytes):
        return b"invalid"
    digest = blake2b(kind.encode(), digest_size=_CHECKSUM_BYTES)
    digest.update(key)
    digest.update(value.encode("utf-8", "surrogatepass"))
    return digest.digest()


def _create(connection: sqlite3.Connection) -> None:
    import sqlite3

    # Another process that creates it switches too, and this is refused at once while it does.
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(
        f"""
        BEGIN EXCLUSIVE;
        CREATE TABLE IF NOT EXISTS entries (
            kind TEXT, key BLOB, value TEXT, checksum BLOB, run INTEGER, PRIMARY KEY (kind, key)
        );
        CREATE TABLE IF NOT EXISTS runs (run INTEGER);
        INSERT INTO runs SELECT 0 WHERE NOT EXISTS (SELECT * FROM runs);
        PRAGMA user_version = {FORMAT};
        COMMIT;
        """
    )


def _make_folder(folder: Path) -> None:
    """Make the folder, marked so that neither git nor back-ups take it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in ((".gitignore", "*\n"), ("CACHEDIR.TAG", _TAG)):
        file = folder / name
        if not file.exists():
            file.write_text(text, encoding="utf-8")
