"""Options of the command line and their defaults: argparse, and parsers that read the fields of dataclasses.

What an option holds by default is not what it holds in every run: whoever starts the job may say otherwise. So a
default is kept with the name of its option (`values.Option`), and is forgotten where parts of the program disagree
about it, or where the program replaces defaults by what is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trainlint.semantics import (
    calls,
    classes,
    code,
    configurations,
    construction,
    frameworks,
    functions,
    library,
    naming,
    object_types,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.state import Frame
from trainlint.semantics.values import (
    NONE,
    OBJECT,
    STRING,
    UNKNOWN,
    Class,
    Const,
    Function,
    Host,
    Listing,
    Object,
    Option,
    Reference,
    Table,
    Tuple,
    Value,
    is_reference,
    join,
)

_CONVERSIONS: dict[str, Callable[[str], int | float | str]] = {"int": int, "float": float, "str": str}
"""What argparse makes of a default that is a text, by the `type` of the option."""
_SWITCHES = {"store_true": False, "store_false": True}
"""Actions, with the default that an option has by them."""
_GIVING_DEFAULTS = ("argument_default", "default_config_files")
"""Arguments of a parser that give its options other values than their own defaults."""
PARSED = Option("args")
"""What a parser returns: its attributes are the options."""
_FROM_FILE = frozenset({"parse_json_file", "parse_yaml_file", "parse_dict"})
_INTO_DATACLASSES = frozenset({"parse_args_into_dataclasses", "parse_args_and_config"})


def make_parser(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`ArgumentParser(…)`; it may be told what options hold that have no default, and where to look for others."""
    if any(given.keywords.get(name, NONE) != NONE for name in _GIVING_DEFAULTS):
        forget_defaults(frame)
    return Object(object_types.PARSER)


def parser_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a parser of the command line."""
    if name == "add_argument":
        _declare(frame, given)
        return OBJECT
    if name == "set_defaults":
        _set_defaults(frame, given)
        return NONE
    if name == "add_arguments":
        _declare_fields(frame, given, node)
        return OBJECT
    if name in ("parse_args", "parse_known_args"):
        _note_given(frame, given)
    if name == "parse_args":
        return PARSED
    if name == "parse_known_args":
        return Tuple((PARSED, Listing(STRING)))
    if name in _FROM_FILE:
        return _from_file(frame, receiver, given, node)
    if name in _INTO_DATACLASSES:
        return _into_dataclasses(frame, receiver, given, node)
    if name in ("add_argument_group", "add_mutually_exclusive_group", "add_parser", "add_subparsers"):
        return receiver
    return OBJECT


def option_of(frame: Frame, name: str, default: Const | None, flags: Iterable[str] = ()) -> Option:
    """An option with its default, where that is what holds in a run that is started as the project does it.

    Args:
        flags: what else the command line calls it.
    """
    names = {name, *(flag.lstrip("-").replace("-", "_") for flag in flags)}
    unknown = frame.run.defaults_replaced or frame.run.configurations.pass_option(*names)
    return Option(name) if default is None or unknown else Option(name, default.value, True)


def holds_options(value: Value) -> bool:
    """Whether a value is what a parser returned, or the dict of its attributes."""
    return isinstance(value, Option) and value.name in (PARSED.name, "__dict__")


def set_option(frame: Frame, name: str, value: Value) -> None:
    """`args.name = value`: from here on, and where a condition decides about it, perhaps."""
    frame.run.effects += 1
    known = frame.run.command_line.get(name, Option(name))
    constant = isinstance(value, Const) and isinstance(known, Const | Option)
    frame.run.command_line[name] = join(known, value) if constant and frame.where.guards else value


def update_options(frame: Frame, given: Given) -> None:
    """`vars(args).update(…)`."""
    values = dict(given.keywords)
    for table in given.positional[:1]:
        if not isinstance(table, Table) or table.rest is not None:
            forget_defaults(frame)
        values |= dict(table.items) if isinstance(table, Table) else {}
    for name, value in values.items():
        set_option(frame, name, value)


def forget_defaults(frame: Frame) -> None:
    """The program gives options values that are not known."""
    run = frame.run
    run.effects += 1
    run.defaults_replaced = True
    run.command_line.update(
        {name: one.without_default() for name, one in run.command_line.items() if isinstance(one, Option)}
    )


# ------------------------------------------------------------------------------------------------------- argparse


def _declare(frame: Frame, given: Given) -> None:
    flags = [value.value for value in given.positional if isinstance(value, Const) and isinstance(value.value, str)]
    if not flags:
        return
    longest = next((flag for flag in flags if flag.startswith("--")), flags[0])
    destination = given.keywords.get("dest")
    name = str(destination.value) if isinstance(destination, Const) else longest.lstrip("-").replace("-", "_")
    if naming.RANK.search(name) or naming.DEVICE.search(name):
        return
    must_be_given = not longest.startswith("-") and "nargs" not in given.keywords
    default = None if must_be_given else _default(given)
    option = option_of(frame, name, default, flags)
    known = frame.run.command_line.setdefault(name, option)
    if isinstance(known, Option) and known != option:
        # parts of the program, such as its commands, declare it each its own way
        frame.run.command_line[name] = Option(name)


def _note_given(frame: Frame, given: Given) -> None:
    """`parser.parse_args(["--workers", "4"])`: what the program itself starts with holds, and no default. Where it
    passes what is not known, that is most often what the command line has."""
    passed, filled = given.get("args", 0), given.get("namespace", 1)
    if filled not in (None, NONE):
        forget_defaults(frame)
    words = passed.items if isinstance(passed, Tuple) else ()
    if any(_names_option(word) for word in words):
        forget_defaults(frame)
    frame.run.options_read = True


def _names_option(word: Value) -> bool:
    return isinstance(word, Const) and str(word.value).startswith("-")


def note_words(frame: Frame, words: Value | None) -> None:
    """`sys.argv += ["--workers", "4"]`, before a parser reads it: the program itself gives options. Where it leaves
    none, as in a notebook, the defaults hold."""
    plain = isinstance(words, Tuple) and all(isinstance(one, Const) and not _names_option(one) for one in words.items)
    if not plain and not frame.run.options_read:
        forget_defaults(frame)


def _default(given: Given) -> Const | None:
    """What an option holds that is not given; None where that is not known, or where it must be given."""
    if not given.complete or given.keywords.get("required", Const(False)) != Const(False):
        return None
    action = given.keywords.get("action")
    switch = _SWITCHES.get(str(action.value)) if isinstance(action, Const) else None
    default = given.keywords.get("default", NONE if switch is None else Const(switch))
    if not isinstance(default, Const) or not isinstance(default.value, str):
        return default if isinstance(default, Const) else None
    kind = given.keywords.get("type")
    if kind is None:
        return default
    convert = _CONVERSIONS.get(kind.name) if isinstance(kind, Reference) else None
    try:
        return None if convert is None else Const(convert(default.value))
    except ValueError:
        return None


def _set_defaults(frame: Frame, given: Given) -> None:
    """`parser.set_defaults(workers=4)`."""
    if not given.complete:
        forget_defaults(frame)
    for name, value in given.keywords.items():
        option = option_of(frame, name, value if isinstance(value, Const) else None)
        if isinstance(value, Option) and value.has_default and not frame.run.configurations.pass_option(name):
            option = replace(value, name=name, fixed=False)
        frame.run.command_line[name] = option


# ----------------------------------------------------------------------------------------------------- dataclasses


def _declare_fields(frame: Frame, given: Given, node: code.Call | None) -> None:
    """`parser.add_arguments(Config, dest="config")` of simple-parsing."""
    made, destination = given.get("dataclass", 0), given.get("dest", 1)
    if isinstance(made, Class) and isinstance(destination, Const):
        frame.run.command_line[str(destination.value)] = construction.instantiate(
            frame, made, Given([], complete=False), node
        )


def _into_dataclasses(frame: Frame, receiver: Object, given: Given, node: code.Call | None) -> Value:
    """What a parser of transformers or trl returns: an object of each of its classes, in order."""
    read = receiver.inner
    wanted = read.items if isinstance(read, Tuple) else () if read is None else (read,)
    if not wanted or given.keywords.get("return_remaining_strings", Const(False)) != Const(False):
        return Tuple((Option("config"), Option("config"), Option("config")))
    return Tuple(tuple(filled_by_command_line(frame, one, node) for one in wanted))


def _from_file(frame: Frame, receiver: Object, given: Given, node: code.Call | None) -> Value:
    """`parser.parse_json_file("args.json")`: each class takes its fields out of the file."""
    read = receiver.inner
    wanted = read.items if isinstance(read, Tuple) else () if read is None else (read,)
    value = next(iter(given.all()), None)
    table = value if isinstance(value, Table) else configurations.content(frame, value)
    if not isinstance(table, Table) or not wanted:
        return Tuple(tuple(Option("config") for _ in wanted)) if wanted else OBJECT
    left = dict(table.items)
    made: list[Value] = []
    for one in wanted:
        own: dict[str, Value] = {}
        if isinstance(one, Class):
            own = {name: left.pop(name) for name in construction.field_names(one) if name in left}
        made.append(_made_from_file(frame, one, own, node))
    for one in wanted:
        if isinstance(one, Reference) and library.HF_ARGUMENTS.match(one.name):
            settings = Given([], left, complete=table.rest is None, spread=True)
            frameworks.note_training_arguments(frame, one.name, settings, node)
    return Tuple(tuple(made))


def _made_from_file(frame: Frame, wanted: Value, fields: dict[str, Value], node: code.Call | None) -> Value:
    if not isinstance(wanted, Class) or any(library.HF_ARGUMENTS.match(one) for one in classes.library_bases(wanted)):
        return Option("config")
    return construction.instantiate(frame, wanted, Given([], fields, complete=False), node)


def filled_by_command_line(frame: Frame, wanted: Value, node: code.Call | None) -> Value:
    """An object of a class whose fields are options of the command line."""
    if isinstance(wanted, Class) and not any(library.HF_ARGUMENTS.match(one) for one in classes.library_bases(wanted)):
        return construction.instantiate(frame, wanted, Given([], complete=False), node)
    return Option("config")


def run_command(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`tyro.cli(Config)`, `fire.Fire(main)`: an object of a class, or what a function returns, made by options."""
    wanted = next((value for value in given.all() if isinstance(value, Class | Function)), None)
    if isinstance(wanted, Class) and "default" in given.keywords:
        # an object that holds other defaults
        return Option("config")
    if isinstance(wanted, Class):
        return filled_by_command_line(frame, wanted, node)
    if not isinstance(wanted, Function):
        functions.run_callbacks(frame, given)
        return UNKNOWN
    defaults = {one.name: one.default for one in wanted.define.parameters if isinstance(one.default, code.Constant)}
    # a text may be more to the function than a setting: a device, the name of a model
    known: dict[str, Value] = {
        name: option_of(frame, name, Const(default.value))
        for name, default in defaults.items()
        if isinstance(default.value, int | float)
    }
    return functions.call_unbound(frame, wanted, known=known)


def field(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`dataclasses.field(default=4)` and its kin: what the field holds where nothing is passed for it."""
    default = given.get("default", 0)
    factory = given.keywords.get("default_factory", given.keywords.get("factory"))
    if default is not None and not isinstance(default, Host):
        return default
    return Option("field") if factory is None else calls.call(frame, factory, Given([]), None)


def is_settings_class(decorators: list[Value], bases: tuple[Value, ...]) -> bool:
    """Whether a class is declared by its fields, with the defaults that they have."""
    return any(is_reference(one, *library.FIELD_DECORATORS) for one in decorators) or any(
        is_reference(one, *library.FIELD_BASES) for one in bases
    )
