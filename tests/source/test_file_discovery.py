"""Which files a run takes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from trainlint.source.discovery import Filters, PathNotFound, context_files, discover, is_excluded, project_root


def write(root: Path, files: dict[str, str] | list[str]) -> Path:
    texts = files if isinstance(files, dict) else dict.fromkeys(files, "")
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def found(root: Path, *paths: str, **options: object) -> list[str]:
    files = discover([root / path for path in paths or ("",)], **options)  # type: ignore[arg-type]
    return [file.relative_to(root).as_posix() for file in files]


WALKS: dict[str, tuple[dict[str, str], list[str]]] = {
    "python files and notebooks, sorted": (
        {"b.py": "", "a/c.py": "", "a.txt": "", "n.ipynb": "", "s.pyi": "", ".ipynb_checkpoints/n.ipynb": ""},
        ["a/c.py", "b.py", "n.ipynb"],
    ),
    "the usual excludes": (
        {f"{name}/x.py": "" for name in (".git", ".venv", "venv", "build", "dist", "site-packages", "_build")}
        | {f"deep/{name}/x.py": "" for name in ("node_modules", "__pycache__", ".tox", ".nox", ".eggs", "buck-out")}
        | {"building/x.py": "", "build.py": ""},
        ["build.py", "building/x.py"],
    ),
    "a folder named like a file is walked": ({"odd.py/x.py": ""}, ["odd.py/x.py"]),
    "a .gitignore counts from its folder down": (
        {"a/.gitignore": "skip.py\n/top.py\n", "skip.py": "", "a/skip.py": "", "a/b/skip.py": "", "a/b/top.py": "",
         "a/top.py": ""},
        ["a/b/top.py", "skip.py"],
    ),
    "a deeper .gitignore decides first": (
        {".gitignore": "*.py\n", "a/.gitignore": "!keep.py\n", "x.py": "", "a/keep.py": "", "a/x.py": ""},
        ["a/keep.py"],
    ),
    "what is below an ignored folder cannot come back": (
        {".gitignore": "a/\n!a/keep.py\n", "a/keep.py": "", "b.py": ""},
        ["b.py"],
    ),
    "folders only": ({".gitignore": "data.py/\n", "data.py": "", "x/data.py/y.py": ""}, ["data.py"]),
    "a byte order mark, windows line ends, comments": (
        {".gitignore": "\ufeffa.py\r\n# b.py\r\n\\#c.py\r\n", "a.py": "", "b.py": "", "#c.py": ""},
        ["b.py"],
    ),
    "a repository of its own is not ignored by the outer one's patterns": (
        {".gitignore": "x.py\n", ".git/HEAD": "", "inner/.git": "gitdir: elsewhere", "inner/x.py": "", "x.py": ""},
        ["inner/x.py"],
    ),
    "git's private excludes": ({".git/info/exclude": "x.py\n", "x.py": "", "y.py": ""}, ["y.py"]),
    "a .gitignore that is a folder or binary": (
        {".gitignore/x": "", "a/.gitignore": "\0\x01[", "a/x.py": ""},
        ["a/x.py"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), WALKS.values(), ids=WALKS)
def test_a_walk_takes(files: dict[str, str], expected: list[str], tmp_path: Path) -> None:
    assert found(write(tmp_path, files)) == expected


def test_patterns_of_folders_above_the_walked_one_count_within_a_repository(tmp_path: Path) -> None:
    write(tmp_path, {".git/HEAD": "", ".gitignore": "skip.py\n/a/b/top.py\n"})
    write(tmp_path, ["a/b/skip.py", "a/b/top.py", "a/b/keep.py"])
    assert found(tmp_path, "a/b") == ["a/b/keep.py"]


def test_named_files_are_taken_though_excluded_unless_exclusion_is_forced(tmp_path: Path) -> None:
    write(tmp_path, {".gitignore": "i.py\n"})
    write(tmp_path, ["build/x.py", "i.py", "script", "keep.py"])
    named = ("build/x.py", "i.py", "script", "keep.py")
    filters = lambda _folder: Filters(tmp_path)  # noqa: E731
    assert found(tmp_path, *named, filters_for=filters) == ["build/x.py", "i.py", "keep.py", "script"]
    assert found(tmp_path, *named, filters_for=filters, force_exclude=True) == ["keep.py", "script"]


def test_a_named_folder_is_walked_though_excluded_unless_exclusion_is_forced(tmp_path: Path) -> None:
    write(tmp_path, ["build/x.py", "build/build/y.py"])
    filters = lambda _folder: Filters(tmp_path)  # noqa: E731
    assert found(tmp_path, "build", filters_for=filters) == ["build/x.py"]
    assert found(tmp_path, "build", filters_for=filters, force_exclude=True) == []


def test_each_file_is_taken_once(tmp_path: Path) -> None:
    write(tmp_path, ["a/x.py"])
    assert found(tmp_path, "a", "a/x.py", "a/../a/x.py", "") == ["a/x.py"]


@pytest.mark.parametrize("name", ["gone.py", "a\0b.py", "x" * 5000, "file/x.py"])
def test_paths_that_do_not_exist_are_named(name: str, tmp_path: Path) -> None:
    write(tmp_path, ["file"])
    with pytest.raises(PathNotFound, match=r": no such file or folder"):
        discover([tmp_path / name])


def test_a_tree_deeper_than_paths_may_be_long_is_walked_as_far_as_it_goes(tmp_path: Path) -> None:
    write(tmp_path, ["x.py"])
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    told: list[str] = []
    assert found(tmp_path, unreadable=lambda _path, reason: told.append(reason)) == ["x.py"]
    assert told == ["file name too long"]
    shutil.rmtree(tmp_path / ("d" * 200))


@pytest.mark.skipif(os.name == "nt", reason="symbolic links need rights")
def test_links(tmp_path: Path) -> None:
    write(tmp_path, ["a/x.py", "outside/y.py"])
    (tmp_path / "a/loop").symlink_to(tmp_path / "a")
    (tmp_path / "a/folder").symlink_to(tmp_path / "outside")
    (tmp_path / "a/again.py").symlink_to("x.py")
    (tmp_path / "a/linked.py").symlink_to("../outside/y.py")
    (tmp_path / "a/linked_too.py").symlink_to("../outside/y.py")
    (tmp_path / "a/dangling.py").symlink_to("gone.py")
    (tmp_path / "a/looping.py").symlink_to("looping.py")
    (tmp_path / "a/.#x.py").symlink_to("user@host.1234")
    assert found(tmp_path, "a") == ["a/dangling.py", "a/linked.py", "a/looping.py", "a/x.py"]
    assert found(tmp_path, "a/folder") == ["a/folder/y.py"]
    assert found(tmp_path, "a/again.py") == ["a/again.py"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may list everything")
def test_folders_that_cannot_be_listed_are_told(tmp_path: Path) -> None:
    write(tmp_path, ["a/x.py", "b.py"])
    (tmp_path / "a").chmod(0)
    told: list[tuple[Path, str]] = []
    assert found(tmp_path, unreadable=lambda path, reason: told.append((path, reason))) == ["b.py"]
    assert told == [(tmp_path / "a", "permission denied")]
    (tmp_path / "a").chmod(0o700)


EXCLUDES = {
    "a name at any depth": (["skip"], ["skip/x.py", "a/skip/x.py", "y.py"], ["y.py"]),
    "a path from the root": (["a/skip"], ["skip/x.py", "a/skip/x.py"], ["skip/x.py"]),
    "a leading dot and slash": (["./skip.py"], ["skip.py", "a/x.py"], ["a/x.py"]),
    "a glob of files": (["*_test.py"], ["a/x_test.py", "x.py"], ["x.py"]),
    "any folders between": (["a/**/skip.py"], ["a/skip.py", "a/b/c/skip.py", "skip.py"], ["skip.py"]),
    "an exception": (["*.py", "!keep.py"], ["keep.py", "x.py"], ["keep.py"]),
}


@pytest.mark.parametrize(("patterns", "files", "expected"), EXCLUDES.values(), ids=EXCLUDES)
def test_exclude_patterns(patterns: list[str], files: list[str], expected: list[str], tmp_path: Path) -> None:
    write(tmp_path, files)
    assert found(tmp_path, filters_for=lambda _folder: Filters(tmp_path, tuple(patterns))) == expected


def test_outside_of_the_configured_root_only_patterns_of_names_hold(tmp_path: Path) -> None:
    write(tmp_path, ["proj", "project/skip/x.py", "project/build/x.py", "project/ect/y.py"])
    filters = Filters(tmp_path / "proj", ("build", "/skip", "ect/skip", "ect/build"))
    assert found(tmp_path, "project", filters_for=lambda _folder: filters) == ["project/ect/y.py", "project/skip/x.py"]
    assert is_excluded(tmp_path / "project/build/x.py", filters)
    assert not is_excluded(tmp_path / "project/skip/x.py", filters)


def test_the_filters_of_a_nested_configuration_hold_below_it(tmp_path: Path) -> None:
    write(tmp_path, ["x.py", "skip.py", "sub/trainlint.toml", "sub/x.py", "sub/skip.py", "sub/deep/x.py"])

    def filters_for(folder: Path) -> Filters:
        nested = folder.is_relative_to(tmp_path / "sub")
        return Filters(tmp_path / "sub", ("x.py",)) if nested else Filters(tmp_path, ("skip.py",))

    assert found(tmp_path, filters_for=filters_for) == ["sub/skip.py", "x.py"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is the oracle")
def test_gitignore_patterns_are_those_of_git(tmp_path: Path) -> None:
    choose = random.Random(7)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    names = ["a", "b", "ab", "a.py", "b.py", "x y.py", "[a].py", "a!.py", "#c.py", "é.py", "-.py", "a-b.py"]
    folders = ["", "a/", "b/", "ab/", "a/b/", "b/a/"]
    write(tmp_path, [folder + name for folder in folders for name in names if name.endswith(".py")])
    pieces = ["*", "**", "a", "b", "?", "[ab]", "[!a]", "[^b]", "/", "*.py", "a.py", "**/", "/**", "\\#c.py", "#c.py",
              "!", "[a", "[]a]*", "[a-b]*", "x\\ y.py", "x y.py", "a/", "[[:alpha:]]", "\\[a\\].py", "é*", "***",
              "[]-a].py", "[b-a].py", "[a-].py", " ", "\\"]  # fmt: skip
    for _ in range(150):
        lines = [
            "".join(choose.choices(["", "!"], [4, 1]) + choose.choices(pieces, k=choose.randint(1, 3))) for _ in "123"
        ]
        write(tmp_path, {".gitignore": "\n".join(lines), "a/.gitignore": choose.choice(lines)})
        listing = ["git", "ls-files", "-z", "--others", "--exclude-standard", "*.py"]
        expected = (
            subprocess.run(listing, cwd=tmp_path, check=True, capture_output=True).stdout.decode().split("\0")[:-1]
        )
        assert found(tmp_path, filters_for=lambda _folder: Filters(tmp_path, ())) == sorted(
            expected, key=lambda name: tmp_path / name
        ), lines


def test_walking_costs_little_however_many_patterns_there_are(tmp_path: Path) -> None:
    patterns = [f"generated_{number}*.py" for number in range(150)] + ["*.log", "/data/", "**/cache/**", "!keep.py"]
    write(tmp_path, {".git/HEAD": "", ".gitignore": "\n".join(patterns)})
    for folder in range(40):
        package = tmp_path / f"package_{folder}"
        package.mkdir()
        for module in range(50):
            (package / f"module_{module}.py").touch()
    spent = []
    for _ in range(5):
        start = time.process_time()
        assert len(discover([tmp_path])) == 2_000
        spent.append(time.process_time() - start)
    assert min(spent) < 0.1  # measured: 0.025 s; the collector may look at what other tests have left


ROOTS = {
    "the closest marker": (["pyproject.toml", "sub/setup.py", "sub/deep/x.py"], "sub/deep/x.py", "sub"),
    "a repository": ([".git/HEAD", "a/b/x.py"], "a/b/x.py", ""),
    "above the topmost package": (["src/p/__init__.py", "src/p/q/__init__.py", "src/p/q/x.py"], "src/p/q/x.py", "src"),
    "its own folder": (["a/b/x.py"], "a/b/x.py", "a/b"),
    "a project rather than a part with its own settings": (["setup.py", "a/trainlint.toml", "a/x.py"], "a/x.py", ""),
    "settings without a project": (["a/trainlint.toml", "a/b/x.py"], "a/b/x.py", "a"),
    "a folder of projects, with a stray script": (
        ["stray.py", "other/.git/HEAD", "a/b/x.py", "a/y.py"],
        "a/b/x.py",
        "a",
    ),
    "the scripts around a folder of modules": (["a/train.py", "a/lib/deep/x.py", "a/lib/y.py"], "a/lib/deep/x.py", "a"),
}


@pytest.mark.parametrize(("files", "file", "root"), ROOTS.values(), ids=ROOTS)
def test_the_project_around_a_file(files: list[str], file: str, root: str, tmp_path: Path) -> None:
    write(tmp_path, files)
    assert project_root(tmp_path / file) == tmp_path / root


def test_context_is_walked_with_the_usual_excludes_and_bounded(tmp_path: Path) -> None:
    write(
        tmp_path,
        {".gitignore": "skip.py\n", "deep/er/z.py": "", "a.py": "", "b.py": "", "skip.py": "", "venv/v.py": ""},
    )
    assert context_files(tmp_path) == [tmp_path / "a.py", tmp_path / "b.py", tmp_path / "deep/er/z.py"]
    assert context_files(tmp_path, limit=2) == [tmp_path / "a.py", tmp_path / "b.py"]
