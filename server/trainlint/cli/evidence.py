"""`--evidence` for `trainlint check`, and `--path-map`: what a probe's result says about the files here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trainlint.cli.failure import Failure
from trainlint.lint.verdicts import Verdicts
from trainlint.report.probe_result import BrokenResult, read_result
from trainlint.report.probe_verdicts import verdicts_of
from trainlint.source.path_map import PathMap, WrongPathMapError
from trainlint.source.system_errors import reason_of


def load_verdicts(file: Path, path_map: Iterable[str]) -> Verdicts:
    """Read the verdicts of a result.

    Raises:
        Failure: the file cannot be read, or is none; or the map is wrong.
    """
    paths = path_map_of(path_map)
    try:
        return verdicts_of(read_result(file.read_bytes()), paths)
    except FileNotFoundError as error:
        advice = f"`trainlint probe --output-file {file}` makes it"
        raise Failure(f"`--evidence {file}`: there is no such file; {advice}") from error
    except OSError as error:
        raise Failure(f"`--evidence {file}` cannot be read: {reason_of(error)}") from error
    except BrokenResult as error:
        raise Failure(f"`--evidence {file}` {error}") from error


def path_map_of(texts: Iterable[str]) -> PathMap:
    """What uses of `--path-map` come to.

    Raises:
        Failure: one of them is wrong.
    """
    pairs: list[tuple[str, str]] = []
    for text in texts:
        try:
            pairs += PathMap.of([text]).pairs
        except WrongPathMapError as error:
            raise Failure(f"`--path-map {text}` {error}") from error
    return PathMap(tuple(pairs))
