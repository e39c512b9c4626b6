"""From what a person writes to what is started: which interpreter runs it, and how the agent gets into it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePath

_PYTHON = re.compile(r"python(\d+(\.\d+)*t?)?(\.exe)?|pypy\d*(\.exe)?", re.IGNORECASE)
_OPTIONS_WITH_VALUE = "WX"
_ENDS_OPTIONS = "cm"
_KEEPS_AGENT_OUT = "EIS"
"""-E ignores PYTHONPATH, -I that and more, -S loads no sitecustomize."""
_LONG_OPTION_WITH_VALUE = "--check-hash-based-pycs"
RUN_FILE = Path("bootstrap", "run.py")
"""In the agent's folder: runs a script with the agent where PYTHONPATH is ignored."""


class UnusableCommandError(Exception):
    """What is to be run cannot be; the message says why."""


@dataclass(frozen=True, slots=True)
class PythonCall:
    """The parts of a command that starts an interpreter."""

    interpreter: str
    options: tuple[str, ...]
    program: tuple[str, ...]
    """Script, `-m MODULE` or `-c CODE`, with the arguments; empty where the code comes from standard input."""

    @classmethod
    def of(cls, command: Sequence[str]) -> PythonCall | None:
        """None where the command starts something else."""
        if not command or _PYTHON.fullmatch(os.path.basename(command[0])) is None:  # noqa: PTH119 - of a word
            return None
        end = _end_of_options(command)
        options, program = list(command[1:end]), list(command[end:])
        if program and program[0] != "-" and program[0].startswith("-"):
            word = program[0]
            letters = _letters(word)
            value = word[1 + len(letters) :]
            options += [f"-{letters[:-1]}"] if letters[:-1] else []
            program[:1] = [f"-{letters[-1]}", *([value] if value else [])]
        return cls(command[0], tuple(options), () if program[:1] == ["-"] else tuple(program))

    @property
    def keeps_agent_out(self) -> bool:
        """Whether an option keeps the interpreter from what PYTHONPATH offers."""
        return any(
            set(_KEEPS_AGENT_OUT) & set(_letters(word))
            for word in self.options
            if word.startswith("-") and not word.startswith("--")
        )


def started(command: Sequence[str], python: str | None, environment: Mapping[str, str]) -> list[str]:
    """The command as it is started: a script gets an interpreter, and `python` takes the place of the one named.

    Of launchers such as torchrun, the one that is installed beside `python` is taken.

    Raises:
        UnusableCommandError: the script is not there.
    """
    words = list(command)
    if words[0].endswith(".py"):
        if not os.path.lexists(words[0]):
            raise UnusableCommandError(f"`{words[0]}`: there is no such file in {os.getcwd()}")  # noqa: PTH109
        return [python or active_python(environment), *words]
    if python is None:
        return words
    if PythonCall.of(words) is not None:
        return [python, *words[1:]]
    beside = Path(python).parent / words[0]
    return [str(beside) if os.sep not in words[0] and os.access(beside, os.X_OK) else words[0], *words[1:]]


def with_agent(command: list[str], agent: Path) -> list[str]:
    """The command that also brings the agent into an interpreter which is told to ignore PYTHONPATH."""
    call = PythonCall.of(command)
    if call is None or not call.keeps_agent_out or not call.program:
        return command
    return [call.interpreter, *call.options, str(agent / RUN_FILE), *call.program]


def active_python(environment: Mapping[str, str]) -> str:
    """The interpreter of the active environment; where none is, ours if it has torch, else the one on the path."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = environment.get(variable)
        candidate = os.path.join(folder, "bin", "python") if folder else ""  # noqa: PTH118 - of a text
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    path = environment.get("PATH")
    return shutil.which("python", path=path) or shutil.which("python3", path=path) or sys.executable


def script_of(command: Sequence[str], cwd: Path) -> Path | None:
    """The file of the job's own code that the command runs, as far as its words tell."""
    for word, after in pairwise([*command, ""]):
        if word == "-m":
            module = cwd.joinpath(*after.split("."))
            for candidate in (module.with_suffix(".py"), module / "__main__.py"):
                if candidate.is_file():
                    return candidate
        elif word.endswith(".py") and (cwd / word).is_file():
            return cwd / word
    return None


def program_of(command: Sequence[str]) -> str:
    """The name of the program that a command trains with, whatever starts it: of a script's file, or of a module."""
    return next(iter([*_scripts_in(command), *_modules_in(command)[-1:], *command]), "")


def may_run(command: Sequence[str], entry: Path) -> bool:
    """Whether a command trains with a file; one that names neither script nor module may train with any."""
    if scripts := _scripts_in(command):
        return entry.name in scripts
    name = entry.parent.name if entry.name == "__main__.py" else entry.stem
    modules = _modules_in(command)
    return not modules or modules[-1].rpartition(".")[2] == name


def _scripts_in(command: Sequence[str]) -> list[str]:
    """The names of the files of Python among the words of a command."""
    return [PurePath(word).name for word in command if word.endswith(".py")]


def _modules_in(command: Sequence[str]) -> list[str]:
    """The modules that a command has interpreters run; the last is the job's own, those before are launchers."""
    return [after for flag, after in pairwise(command) if flag == "-m"]


def _end_of_options(command: Sequence[str]) -> int:
    """Where the program begins: at its path, or at the word with `c` or `m`."""
    index = 1
    while index < len(command):
        word = command[index]
        if not word.startswith("-") or word == "-":
            return index
        if word.startswith("--"):
            index += 2 if word == _LONG_OPTION_WITH_VALUE else 1
            continue
        letters = _letters(word)
        if letters[-1] in _ENDS_OPTIONS:
            return index
        index += 2 if letters[-1] in _OPTIONS_WITH_VALUE and letters == word[1:] else 1
    return index


def _letters(word: str) -> str:
    """The one-letter options in a word such as `-uI`, up to one that takes a value."""
    for index, letter in enumerate(word[1:], 2):
        if letter in _OPTIONS_WITH_VALUE + _ENDS_OPTIONS:
            return word[1:index]
    return word[1:]
