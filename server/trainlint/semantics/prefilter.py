"""What a file's bytes tell without a parse: which modules it imports, whether training libraries are among them, and
which configuration files it names.

The linker needs the import closure of training code, and a parse costs fifty times as much as this. The scan may report
an import that stands in a string or a comment; it misses none that is written as people write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from trainlint.semantics.configuration_files import AROUND
from trainlint.semantics.facts import ImportedModule

LIBRARIES: frozenset[str] = frozenset(
    {
        "accelerate",
        "apex",
        "datasets",
        "deepspeed",
        "fairscale",
        "ignite",
        "lightning",
        "pytorch_lightning",
        "ray",
        "torch",
        "torchvision",
        "transformers",
    }
)
"""Packages whose import makes a file one that may train."""

_GAP = rb"(?:[ \t\f]|\\(?:\r\n?|\n))"
_WORD = rb"[\w\x80-\xff]"
_DOTTED = rb"%s+(?:%s*\.%s*%s+)*" % (_WORD, _GAP, _GAP, _WORD)
_ON_LINE = rb"(?:[^\r\n;#\\]|\\(?:\r\n?|\n))*"
# The patterns start with literal text, and look back for the start of the word, so that the search is one for bytes.
_FROM = re.compile(
    rb"from(?<!%s.{4})(?=[ \t\f\\.])((?:%s|\.)*)(%s)?%s*import(?!%s)%s*(\((?:[^)#]|#[^\r\n]*)*|%s)"
    % (_WORD, _GAP, _DOTTED, _GAP, _WORD, _GAP, _ON_LINE)
)
_IMPORT = re.compile(rb"import(?<!%s.{6})%s+(%s)" % (rb"[\w\x80-\xff.]", _GAP, _ON_LINE))
_CALLED = re.compile(rb"import(?:_module|__)\s*\(\s*(?:name\s*=\s*)?[rRuU]?[\"']+(\.*)([^\"'\\\s]+)[\"']")
_FIRST_DOTTED = re.compile(rb"%s*(%s)" % (_GAP, _DOTTED))
_FIRST_WORD = re.compile(rb"[\s\\(]*(\*|%s+)" % _WORD)
_GAPS = re.compile(rb"[\s\\]+")
_COMMENT = re.compile(rb"#[^\r\n]*")
_ENDS_FILE_NAME = re.compile(rb"\.(?:yaml|yml|json|toml)[\"']")
_STARTS_FILE_NAME = re.compile(rb"[\"']([^\"'{}\\\r\n\0]+)\Z")
_FOLDER_BEFORE = re.compile(rb"[\"']([^\"'{}\\\r\n\0]+)[\"']\)?[ \t]*[,/][ \t]*\Z")
"""The folder of `Path("configs") / "train.yaml"` and of `os.path.join("configs", "train.yaml")`."""
_LONGEST_FILE_NAME = 200
_TAKES_OPTIONS = re.compile(rb"\b(?:add_argument|HfArgumentParser|TrlParser|tyro|simple_parsing|hydra|from_cli)\b")
_HYDRA_ARGUMENT = re.compile(rb"config_(path|name)[ \t]*=[ \t]*[\"']([^\"'\\\r\n\0]*)[\"']")
_MOST_CONFIGURATIONS = 100
"""Names of configuration files in one file; one with more tests them, or writes them."""


@dataclass(frozen=True)
class Scan:
    """What the bytes of a file tell; see `scan`."""

    imports: tuple[ImportedModule, ...]
    """The modules it imports, in no particular order, each once."""
    configurations: tuple[str, ...] = ()
    """The configuration files that it may read, by the names that its texts give them: relative paths, those of folders
    with a slash at their end. AROUND stands for the scripts that may pass options to it."""

    @cached_property
    def libraries(self) -> frozenset[str]:
        """The training libraries that it imports; empty for a file that matters only if training code imports it."""
        return LIBRARIES.intersection([one.module.partition(".")[0] for one in self.imports if not one.level])


def scan(source: bytes) -> Scan:
    """Find the imports of a Python file: statements wherever they stand, and `import_module("literal")`."""
    source = source.removeprefix(b"\xef\xbb\xbf")
    configurations = tuple(dict.fromkeys(_configurations(source)))
    if b"import" not in source:
        return Scan((), configurations)
    found = [*_from_imports(source), *_plain_imports(source), *_called_imports(source)]
    return Scan(tuple(dict.fromkeys(found)), configurations)


def _configurations(source: bytes) -> Iterator[str]:
    """The names of configuration files in the texts of a program."""
    for match, _ in zip(_ENDS_FILE_NAME.finditer(source), range(_MOST_CONFIGURATIONS), strict=False):
        text = source[max(0, match.start() - _LONGEST_FILE_NAME) : match.end() - 1]
        name = _STARTS_FILE_NAME.search(text)
        if name is None:
            continue
        path = name[1].decode("utf-8", "replace")
        yield path
        while (folder := _FOLDER_BEFORE.search(text, 0, name.start())) is not None:
            path, name = f"{folder[1].decode('utf-8', 'replace')}/{path}", folder
            yield path
    if _TAKES_OPTIONS.search(source) is not None:
        yield AROUND
    if b"hydra" in source and (arguments := dict(_HYDRA_ARGUMENT.findall(source))):
        # a folder of files that name one another
        yield f"{arguments.get(b'path', b'.').decode('utf-8', 'replace') or '.'}/"


def _from_imports(source: bytes) -> Iterator[ImportedModule]:
    for match in _FROM.finditer(source):
        dots, module, names = match.groups()
        level = dots.count(b".")
        if module or level:
            yield ImportedModule(_text(module or b""), level, tuple(_names(names)))


def _names(listed: bytes) -> Iterator[str]:
    for item in _COMMENT.sub(b"", listed).split(b","):
        word = _FIRST_WORD.match(item)
        if word is not None:
            yield _text(word.group(1))


def _plain_imports(source: bytes) -> Iterator[ImportedModule]:
    for match in _IMPORT.finditer(source):
        if not _starts_statement(source, match.start()):
            continue
        for item in match.group(1).split(b","):
            module = _FIRST_DOTTED.match(item)
            if module is not None:
                yield ImportedModule(_text(module.group(1)), 0, ())


def _starts_statement(source: bytes, offset: int) -> bool:
    """Whether a statement may start at `offset`: only blanks stand before it, or a semicolon or a colon."""
    row_start = max(source.rfind(b"\n", 0, offset), source.rfind(b"\r", 0, offset)) + 1
    before = source[row_start:offset].strip()
    return not before or before[-1:] in b";:"


def _called_imports(source: bytes) -> Iterator[ImportedModule]:
    for match in _CALLED.finditer(source):
        dots, module = match.groups()
        yield ImportedModule(_text(module), len(dots), ())


def _text(name: bytes) -> str:
    return _GAPS.sub(b"", name).decode("utf-8", "replace")
