"""How the arguments of every verb are parsed: one message style, lists with commas, no abbreviations."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

LIKENESS = 0.75
"""How like an option a word must be, from 0 (anything) to 1 (the same), to be taken for a slip: two letters of
`--select` may be swapped, `--bogus` is no `--verbose`."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help whose lines never end within a word such as `--output-format` or `json-lines`."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        import textwrap

        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def add_colour(options: argparse._ActionsContainer) -> None:
    options.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colour the output; auto does at a terminal only (default: auto)",
    )


def add_text_or_json(options: argparse._ActionsContainer) -> None:
    options.add_argument(
        "--output-format", choices=("text", "json"), default="text", help="how it is printed (default: text)"
    )


def add_configuration(options: argparse._ActionsContainer) -> None:
    options.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE|KEY=VALUE",
        help="configuration file in place of those found, or a setting in TOML",
    )
    options.add_argument("--isolated", action="store_true", help="ignore all configuration files")


def add_path_map(options: argparse._ActionsContainer) -> None:
    options.add_argument(
        "--path-map",
        action="append",
        default=[],
        metavar="REMOTE=LOCAL",
        help="a folder of the machine where the job ran, and the one that stands for it here",
    )


class VerbParser(argparse.ArgumentParser):
    """The parser of one verb. Mistakes end the program with status 2 and a message that names the nearest option."""

    def __init__(self, verb: str, usage: str, description: str) -> None:
        super().__init__(
            prog=f"trainlint {verb}",
            usage=f"trainlint {verb} {usage}",
            description=description,
            allow_abbrev=False,
            formatter_class=_Help,
        )
        self._value_may_miss: set[str] = set()

    def add_flag_with_value(self, group: argparse._ArgumentGroup, option: str, value: str, text: str) -> None:
        """Add an option that is written `--option` or `--option=VALUE`; the word after it is no value of it."""
        self._value_may_miss.add(option)
        group.add_argument(option, nargs="?", const="", metavar=value, help=text)

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse; options may stand before, between and after paths, and everything after `--` is a path."""
        words = list(arguments)
        separator = words.index("--") if "--" in words else len(words)
        # argparse keeps or drops `--` by version when options and paths are mixed, so it never gets to see it.
        literal = words[separator + 1 :]
        # Without its `=`, argparse would take the path that follows for the value.
        given = [f"{word}=" if word in self._value_may_miss else word for word in words[:separator]]
        namespace, unknown = self.parse_known_intermixed_args(given)
        if unknown:
            self.error(self._unknown(unknown[0]))
        if literal:
            namespace.paths = [*getattr(namespace, "paths", []), *literal]
        return namespace

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message}\nTry `{self.prog} --help`.", file=sys.stderr)
        raise SystemExit(2)

    def _unknown(self, word: str) -> str:
        option = word.split("=", 1)[0]
        if not option.startswith("-"):
            return f"unexpected argument `{word}`"
        import difflib

        nearest = difflib.get_close_matches(option, self._option_string_actions, n=1, cutoff=LIKENESS)
        nearest = nearest or _parts_of(option, self._option_string_actions)
        hint = f", did you mean `{nearest[0]}`?" if nearest else ""
        return f"unknown option `{option}`{hint}"


def _parts_of(option: str, options: Iterable[str]) -> list[str]:
    """The one option, if there is one, of which this one is whole words: `--output-format` for `--format`."""
    found = [known for known in options if f"-{option.strip('-')}-" in f"{known[1:]}-"]
    return found if len(found) == 1 else []


class CommaSeparated(argparse.Action):
    """Collects `A,B` and further uses of the option into one list."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        words = [word.strip() for word in str(values).split(",")]
        earlier: list[str] = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, earlier + [word for word in words if word])


class SomeCommaSeparated(CommaSeparated):
    """The same, of one name at least: an empty variable of a shell script must not switch all rules off unseen."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        super().__call__(parser, namespace, values, option_string)
        if not getattr(namespace, self.dest):
            raise argparse.ArgumentError(self, "expected at least one name, got none")


def positive(text: str) -> int:
    """A whole number from 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got `{text}`")
    return number
