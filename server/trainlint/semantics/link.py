"""From the facts of all files to the project that rules query.

Each entry point is interpreted once, with the modules it imports; what runs how often is known when all of it has been
walked, and only then are the records made that rules see. Functions that nothing calls are walked afterwards, as roots
of their own, if they hold anything that rules speak about.
"""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trainlint.semantics import (
    classes,
    code,
    finishing,
    frameworks,
    functions,
    ignite,
    library,
    lightning,
    module_runs,
    names,
    naming,
    participation,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.configuration_files import ConfigurationFiles
from trainlint.semantics.decoded import Decoded
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.interest import Interest
from trainlint.semantics.modules import ModuleMap
from trainlint.semantics.project import (
    Entry,
    Project,
)
from trainlint.semantics.state import (
    Frame,
    ModuleState,
    Role,
    Root,
    Run,
    Units,
    Where,
)
from trainlint.semantics.values import NUMBER, Bound, Class, Function, Instance, is_reference
from trainlint.semantics.vocabulary import Framework, GradMode, Known

_RECURSION = 12_000
"""Deep enough for calls followed 24 deep through nested statements; the interpreter's own frames are small."""
_WORTH_WALKING = frozenset(
    [
        "backward",
        "step",
        "DataLoader",
        "DataParallel",
        "DistributedDataParallel",
        "DDP",
        "FullyShardedDataParallel",
        "fully_shard",
        "Trainer",
        "fit",
        "Accelerator",
        "Fabric",
        "deepspeed",
        "set_detect_anomaly",
        "detect_anomaly",
        "environ",
        "init_process_group",
        "training_step",
    ]
)
_FRAMEWORK_CLASSES = frozenset({"LightningModule", "Trainer", "LightningDataModule", "Callback", "TrainerCallback"})
_UNIT_TESTS = frozenset({"hypothesis", "numpy.testing", "pytest", "torch.testing", "unittest"})
"""What files of unit tests import. What runs in such a file, runs once."""


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """What the configuration tells the analyzer about a code base."""

    device: str = "auto"
    """"auto", "cuda", "cpu", "mps" or "xpu"."""
    distributed: str = "auto"
    """"auto", "true" or "false"."""
    step_functions: tuple[str, ...] = ()
    """Names of functions that run once per training step."""
    sync_functions: tuple[str, ...] = ()
    """Names of functions that wait for the device."""
    rank_guards: tuple[str, ...] = ()
    """Names of functions or variables that are true on one rank only."""
    loader_factories: tuple[str, ...] = ()
    """Names of functions that return a DataLoader."""
    torch_version: tuple[int, int] | None = None
    """Newest torch release that the project admits; None where nothing bounds it from above."""
    oldest_torch: tuple[int, int] | None = None
    """Oldest one, which the code that fixes leave must run with too; None where nothing bounds it from below."""


def link(
    files: Mapping[Path, ModuleFacts],
    options: LinkOptions | None = None,
    configurations: ConfigurationFiles | None = None,
) -> Project:
    """Interpret every entry point among `files` and return what the rules may query.

    `files` holds one connected part of the project, by absolute path: modules that import each other, and no others.
    `configurations` has the configuration files that they name.
    """
    linker = Linker(files, options or LinkOptions(), configurations=configurations)
    walks = [linker.walk(path) for path in linker.entries]
    called = frozenset().union(*(walk.reached for walk in walks))
    project = Project(torch_version=linker.options.torch_version)
    for walk in walks:
        learned = walk.learned
        project.extend(linker.complete(walk))
        for path in linker.uncalled_files(walk.path):
            rest = linker.walk_uncalled(path, learned, called)
            called |= rest.reached
            learned.trains = rest.trains
            project.extend(rest.project)
    return project


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Interpretation recurses deeply and makes many small objects that all live as long as it does."""
    limit = sys.getrecursionlimit()
    collecting = gc.isenabled()
    gc.disable()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if collecting:
            gc.enable()


class Walk:
    """An entry point that was walked, before its records are made."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def path(self) -> Path:
        return self.run.entry.path

    @property
    def learned(self) -> Entry:
        """What holds for the entry point as far as its own code tells."""
        return copy.copy(self.run.entry)

    @property
    def read(self) -> Read:
        """What it looked at so far."""
        return _read_by(self.run)

    @property
    def reached(self) -> frozenset[tuple[Path, int]]:
        """The functions that the entry point calls, by file and index of their body."""
        return frozenset(self.run.reached)


class Read(NamedTuple):
    """What interpreting code of some files looked at, besides all that stood outside of functions."""

    bodies: frozenset[tuple[Path, int]]
    """Of these functions, by file and index."""
    asked: Mapping[tuple[Path, str | int], bool]
    """What `Interest.answer` said of these classes and functions."""
    absent: frozenset[tuple[Path, str]]
    """These names of modules, which no statement of the module binds."""
    whole: frozenset[Path]
    """All statements and functions of these files, and which names they bind."""


def _read_by(run: Run) -> Read:
    modules = run.modules.values()
    absent = frozenset((module.path, name) for module in modules for name in module.absent)
    whole = frozenset(module.path for module in modules if module.whole)
    return Read(frozenset(run.read), dict(run.asked), absent, whole)


class Uncalled(NamedTuple):
    """What the functions of one file tell that nothing calls."""

    project: Project
    reached: frozenset[tuple[Path, int]]
    """The functions that they call, themselves included."""
    trains: bool
    """Whether one of them trains, or the owner does: models in the files that follow are then trained by it."""
    read: Read


class Linker:
    """Linking in steps, so that each can be taken by itself: by another process, or not at all where nothing of what
    it depends on has changed.

    An entry point is walked, and its walk completed, from the facts of its import closure. Then come the functions that
    no entry point calls, file by file, each file with the first entry point whose closure holds it (its owner). What
    they tell depends on the file's own closure, on what the owner's walk learned, and on which functions of the file
    were called before.
    """

    def __init__(
        self,
        files: Mapping[Path, ModuleFacts],
        options: LinkOptions,
        decoded: Decoded | None = None,
        configurations: ConfigurationFiles | None = None,
    ) -> None:
        """`decoded` has what was decoded of the files before, where they were linked before; `configurations` has the
        configuration files that they name."""
        self.files = files
        self.configurations = ConfigurationFiles({}) if configurations is None else configurations
        self.options = options
        self.map = ModuleMap(files)
        self.decoded = Decoded() if decoded is None else decoded
        self._units_of: dict[Path, Units] = {}
        self.imports = {path: self._imports_of(path) for path in files}
        self._closures: dict[Path, frozenset[Path]] = {}
        self._mentions: dict[frozenset[Path], frozenset[str]] = {}
        self.interest = Interest(files, self.closure)
        self.owned: dict[Path, list[Path]] = {}
        """For each entry point, the files whose functions it stands for if nothing calls them."""
        self.entries = self._entry_paths()
        """Files that are started: those that ask whether they are `__main__`, then those that no other imports."""

    def _imports_of(self, path: Path) -> frozenset[Path]:
        found: set[Path] = set()
        for item in self.files[path].imports:
            found.update(self.map.resolve(path, item.module, item.level, item.names))
        return frozenset(found & self.files.keys())

    def closure(self, path: Path) -> frozenset[Path]:
        """The files that a file imports, directly or not, itself included."""
        known = self._closures.get(path)
        if known is None:
            known = self._closures[path] = self._find_closure(path)
        return known

    def _find_closure(self, path: Path) -> frozenset[Path]:
        """Files that import each other have the same closure, and so one set: where all files of a package do, sets of
        their own would take time and memory by the square of their number."""
        found = {path}
        waiting = [path]
        while waiting:
            for imported in self.imports[waiting.pop()] - found:
                known = self._closures.get(imported)
                if known is None:
                    found.add(imported)
                    waiting.append(imported)
                elif path in known:
                    return known
                elif imported not in found:
                    found |= known
        return frozenset(found)

    def mentions(self, path: Path) -> frozenset[str]:
        """The names among `extract.WATCHED` that the import closure of a file mentions."""
        closure = self.closure(path)
        known = self._mentions.get(closure)
        if known is None:
            known = self._mentions[closure] = frozenset().union(*(self.files[one].all_mentions for one in closure))
        return known

    def walk(self, path: Path) -> Walk:
        """Interpret the entry point `path` from top to bottom, and what it calls."""
        with _undisturbed():
            return Walk(self._run_entry(path))

    def complete(self, walk: Walk) -> Project:
        """Make the records of a walk."""
        project = Project(torch_version=self.options.torch_version)
        with _undisturbed():
            finishing.Finisher(walk.run, project).finish()
        return project

    def uncalled_files(self, owner: Path) -> list[Path]:
        """The files that an entry point owns, in the order in which their uncalled functions are to be walked: those
        that import others come before them, so that the others are reached with known arguments."""
        return sorted(self.owned[owner], key=lambda path: (-len(self.closure(path)), path))

    def walk_uncalled(self, path: Path, owner: Entry, called: frozenset[tuple[Path, int]]) -> Uncalled:
        """Walk the functions of a file that are not among the `called` ones; `owner` is what its owner's walk learned.

        What they tell of the circumstances, such as a process group that one of them starts, holds in this file alone;
        that something trains holds for the owner's other files too.
        """
        run = self._new_run(owner.path, copy.copy(owner))
        project = Project(torch_version=self.options.torch_version)
        with _undisturbed():
            self._run_uncalled(run, path, called)
            if run.statements:
                finishing.Finisher(run, project).finish()
            project.name_uses += names.name_uses(path, self.files[path], self.decoded)
        run.read.update((path, index) for index in range(len(self.files[path].functions)))
        read = _read_by(run)
        read = read._replace(whole=read.whole | {path})
        return Uncalled(project, frozenset(run.reached), run.entry.trains, read)

    def _units(self, path: Path) -> Units:
        units = self._units_of.get(path)
        if units is None:
            units = self._units_of[path] = module_runs.decode_units(path, self.files[path], self.decoded)
        return units

    # -------------------------------------------------------------------------------------------------- entry points

    def _entry_paths(self) -> list[Path]:
        """Choose the entry points, and for each file the first of them whose closure holds it."""
        ordered = sorted(self.files)
        imported = frozenset().union(*self.imports.values())
        mains = [path for path in ordered if self.files[path].starts]
        is_main = set(mains)
        candidates = mains + [path for path in ordered if path not in imported and path not in is_main]
        entries: list[Path] = []
        taken: set[Path] = set()
        started = set(candidates)
        for path in (*candidates, *ordered):
            # what is left over imports itself in a circle, and nothing starts it
            if path in self.owned or (path in taken and path not in started):
                continue
            closure = self.closure(path)
            self.owned[path] = sorted(closure - taken)
            taken |= closure
            entries.append(path)
        return entries

    def _run_entry(self, path: Path) -> Run:
        run = self._new_run(path, Entry(path, self.map.module_name(path) or path.stem))
        if self.options.device in ("cuda", "cpu"):
            run.entry.cuda = Known.YES if self.options.device == "cuda" else Known.NO
        module = run.module(path)
        # what a file of unit tests does when it is started is to run them
        module.is_main = not _holds_unit_tests(module)
        module.started = True
        module_runs.run_module(run, module)
        ignite.run_rest(_module_frame(run, module))
        return run

    def _new_run(self, path: Path, entry: Entry) -> Run:
        """An interpretation that has not begun, for what belongs to the entry point `path`."""
        return Run(
            entry=entry,
            facts=self.files,
            map=self.map,
            options=self.options,
            units=self._units,
            run_units=module_runs.run_units,
            interest=self.interest,
            mentions=self.mentions(path),
            rank_names=frozenset(self.options.rank_guards),
            decoded=self.decoded,
            configurations=self.configurations,
        )

    # ------------------------------------------------------------------------------------------ functions not called

    def _run_uncalled(self, run: Run, path: Path, called: frozenset[tuple[Path, int]]) -> None:
        facts = self.files[path]
        missing = [index for index in range(len(facts.functions)) if (path, index) not in called]
        if not missing:
            return
        if run.entry.cuda is Known.UNKNOWN and "cuda" in run.mentions:
            run.entry.cuda = Known.YES
        candidates = [index for index in missing if self._may_matter(run, path, index)]
        if not candidates:
            return
        module = run.module(path)
        for index in self._in_calling_order(facts, candidates):
            # of the module itself, only what defines the function is run, and what that asks for
            run.find_global(module, facts.functions[index].qualname.partition(".")[0])
            if (path, index) not in run.reached:
                self._run_function(run, module, index)

    def _may_matter(self, run: Run, path: Path, index: int) -> bool:
        """Whether a function could be worth walking, by what is known without its class."""
        facts = self.files[path]
        owner, _, name = facts.functions[index].qualname.rpartition(".")
        if name in self.options.step_functions:
            return True
        if name in ("forward", "__getitem__", "__iter__", "__call__") or "collate" in name:
            first = owner.partition(".")[0]
            return run.may_matter(path, first or index)
        mentions = facts.functions[index].mentions
        return bool(mentions & _WORTH_WALKING) or bool(facts.mentions & _FRAMEWORK_CLASSES)

    def _in_calling_order(self, facts: ModuleFacts, missing: list[int]) -> list[int]:
        """Functions that no other of them names come first, so that the others are reached with known arguments."""
        named: dict[str, int] = {}
        for index in missing:
            for word in facts.words(index):
                named[word] = named.get(word, 0) + 1

        def is_called(index: int) -> bool:
            own = facts.functions[index].qualname.rpartition(".")[2]
            return named.get(own, 0) > 0

        constructors = [index for index in missing if facts.functions[index].qualname.endswith("__init__")]
        rest = [index for index in missing if index not in constructors]
        return [index for index in rest if not is_called(index)] + [index for index in rest if is_called(index)]

    def _run_function(self, run: Run, module: ModuleState, index: int) -> None:
        function = module.defined.get(index)
        if function is None or not isinstance(function.define, code.Define):
            return
        role = self._role(run, module, index, function)
        if role is None:
            return
        facts = module.facts.functions[index]
        frame = Frame(run, module, Where(Root(Role.PROGRAM)), function.row, "", module.variables)
        receiver = self._receiver(frame, function)
        if receiver is not None and self._run_framework_object(frame, receiver):
            return
        for_training = "step" in facts.mentions or naming.is_of_training(function.qualname)
        root = Root(role, assumed=role is Role.FORWARD, for_training=for_training)
        # whether the code that calls it, of a base that is not seen, has switched gradients off is not known
        unseen = function.owner is not None and classes.derives_from_unseen(function.owner)
        frame.where = Where(root, grad=GradMode.UNKNOWN if unseen else GradMode.ENABLED)
        if role is Role.FORWARD and receiver is not None:
            root.doubtful = participation.is_doubtful(frame, function, receiver)
        if role in (Role.SAMPLE, Role.COLLATE) and isinstance(receiver, Instance):
            name = function.define.name
            frameworks.run_as(
                frame,
                role,
                Bound(function, receiver),
                [NUMBER] if name == "__getitem__" else [],
                whole_pass=name == "__iter__",
            )
            return
        is_static = any(is_reference(decorator, "staticmethod") for decorator in function.decorators)
        reached = frozenset(run.reached) if root.doubtful else frozenset()
        functions.call_unbound(frame, function, receiver=None if is_static else receiver)
        ignite.run_rest(frame)
        if root.doubtful:
            # what it calls, if it is a forward, is judged by itself
            run.reached &= {*reached, (module.path, index)}

    def _role(self, run: Run, module: ModuleState, index: int, function: Function) -> Role | None:
        """In which role to walk a function that nothing calls; None to leave it."""
        define = function.define
        assert isinstance(define, code.Define)
        name = define.name
        owner = function.owner
        if name in self.options.step_functions:
            return Role.STEP
        if module.facts.is_of_another_framework:
            return None
        if _is_of_unit_tests(module, name) or (owner is not None and classes.is_test_case(owner)):
            return None
        if owner is not None:
            bases = classes.library_bases(owner)
            if name in ("__getitem__", "__iter__") and classes.is_dataset_class(owner):
                iterable = any(base.endswith("IterableDataset") for base in bases)
                return Role.SAMPLE if (name == "__iter__") == iterable else None
            if name == "forward" and classes.is_module_class(owner):
                trained = run.mentions & {"backward", "training_step", "Trainer", "fit"}
                return Role.FORWARD if trained and not participation.only_infers(function) else None
            if "ollat" in owner.define.name and name == "__call__":
                return Role.COLLATE
        if "collate" in name and owner is None:
            return Role.COLLATE
        mentions = module.facts.functions[index].mentions
        if mentions & _WORTH_WALKING or (owner is not None and _is_framework_class(owner)):
            return Role.FUNCTION
        return None

    def _receiver(self, frame: Frame, function: Function) -> Instance | None:
        owner = function.owner
        if owner is None:
            return None
        for instance in frame.run.instances.values():
            if instance.cls is owner or _derives(instance.cls, owner):
                return instance
        key = (id(owner), "root")
        instance = frame.run.instances[key] = Instance(owner)
        constructor = classes.find_member(owner, "__init__")
        if isinstance(constructor, Function):
            functions.call_unbound(frame, constructor, receiver=instance)
        return instance

    def _run_framework_object(self, frame: Frame, receiver: Instance) -> bool:
        """Run the hooks of a class that a framework drives; whether it is one."""
        bases = classes.library_bases(receiver.cls)
        if lightning.is_driven(bases):
            frame.run.entry.trains = True
            lightning.run_object(frame, receiver)
            return True
        if any(library.HF_TRAINERS.match(base) for base in bases) and id(receiver) not in frame.run.driven_objects:
            frame.run.driven_objects.add(id(receiver))
            frameworks.use_hf_trainer(frame, Given([]), receiver)
        if library.HF_CALLBACK in bases:
            frame.run.entry.trains = True
            frameworks.own(frame, Framework.HF_TRAINER)
            frameworks.run_trainer_callback(frame, receiver)
            return True
        return False


def _module_frame(run: Run, module: ModuleState) -> Frame:
    """A frame for what runs outside of any function of a module."""
    return Frame(run, module, Where(Root(Role.PROGRAM)), 0, "", module.variables)


def _is_of_unit_tests(module: ModuleState, name: str) -> bool:
    """Whether a function that nothing calls is a unit test, or helps those of its file."""
    concerns_tests = _is_named_after_tests(module) or _imports_unit_tests(module)
    return _holds_unit_tests(module) or (concerns_tests and name.startswith(("test_", "_test_")))


def _holds_unit_tests(module: ModuleState) -> bool:
    """Whether a file is one of unit tests, by its name and by where it lies or what it imports or defines: functions in
    a file named in pytest's way, methods of test cases in any file named after tests."""
    if not _is_named_after_tests(module):
        return False
    alone = module.path.stem.startswith("test_")
    among_tests = alone and not _FOLDERS_OF_TESTS.isdisjoint(module.path.parts[-_NEAR:-1])
    if among_tests or _imports_unit_tests(module):
        return True
    module.whole = True
    parts = [function.qualname.rpartition(".") for function in module.facts.functions]
    return any(name.startswith("test_") and (alone or owner) for owner, _, name in parts)


_FOLDERS_OF_TESTS = frozenset({"test", "test_utils", "testing", "tests", "unit_tests", "unittests"})
_NEAR = 5
"""How many of the last parts of a path are looked at for such a folder, the file's name included."""


def _is_named_after_tests(module: ModuleState) -> bool:
    return module.path.stem.startswith("test_") or module.path.stem.endswith("_test")


def _imports_unit_tests(module: ModuleState) -> bool:
    return any(one.module in _UNIT_TESTS for one in module.facts.imports)


def _is_framework_class(owner: Class) -> bool:
    bases = classes.library_bases(owner)
    of_transformers = library.HF_CALLBACK in bases or any(library.HF_TRAINERS.match(base) for base in bases)
    return of_transformers or lightning.is_driven(bases)


def _derives(cls: Class, owner: Class, depth: int = 0) -> bool:
    return depth < 12 and any(
        isinstance(base, Class) and (base is owner or _derives(base, owner, depth + 1)) for base in cls.bases
    )
