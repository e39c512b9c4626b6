"""Configuration files are inputs of the analysis: what they say counts at once, with and without a cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects_on_disk import codes, lines, run, write

from trainlint.lint.check_options import CheckOptions
from trainlint.lint.configurations import places
from trainlint.lint.live import LiveEngine
from trainlint.semantics.prefilter import scan

SCRIPT = """
    import torch
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms

    from settings import read

    def main():
        config = read("conf/train.yaml")
        images = datasets.CIFAR10("data", transform=transforms.ToTensor())
        loader = DataLoader(images, batch_size=64, num_workers=config["workers"], pin_memory=True)
        model = torch.nn.Linear(3072, 10).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for images, labels in loader:
            loss = model(images.cuda(non_blocking=True).flatten(1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    main()
"""
READING = """
    import yaml

    def read(path):
        with open(path) as file:
            return yaml.safe_load(file)
"""
NONE, FOUR = "workers: 0\n", "workers: 4\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path / "project", {"train.py": SCRIPT, "settings.py": READING, "conf/train.yaml": NONE})


def test_a_configuration_that_changes_changes_the_findings_cold_and_warm(project: Path) -> None:
    file = project / "conf/train.yaml"
    for text, expected in ((NONE, ["TL103"]), (FOUR, []), (NONE, ["TL103"]), ("workers: [", []), (FOUR, [])):
        file.write_text(text, encoding="utf-8")
        assert codes(run(project)) == expected
        for _ in range(2):
            assert codes(run(project, cache=True)) == expected
    file.unlink()
    assert codes(run(project, cache=True)) == codes(run(project)) == []
    file.write_text(NONE, encoding="utf-8")
    assert codes(run(project, cache=True)) == codes(run(project)) == ["TL103"]


def test_the_same_is_found_in_several_processes(project: Path) -> None:
    others = {f"job{number}.py": SCRIPT for number in range(3)}
    write(project, others)
    assert lines(run(project, jobs=2), project) == lines(run(project, jobs=1), project)
    assert codes(run(project, jobs=2)) == ["TL103"] * 4


def test_what_is_found_does_not_depend_on_what_is_named(project: Path) -> None:
    assert codes(run(project / "train.py")) == codes(run(project)) == ["TL103"]


UNFIT = {
    "not UTF-8": b"workers: 0 # \xff\n",
    "too large": b"workers: 0\n" + b"# more\n" * 100_000,
    "a null character": b"workers: 0\0",
    "no mapping": b"- 1\n",
    "empty": b"",
}


@pytest.mark.parametrize("data", UNFIT.values(), ids=UNFIT)
def test_a_file_that_cannot_be_taken_leaves_the_value_unknown(project: Path, data: bytes) -> None:
    (project / "conf/train.yaml").write_bytes(data)
    result = run(project)
    assert codes(result) == []
    assert not result.errors
    assert not result.warnings


def test_a_folder_in_its_place_leaves_the_value_unknown(project: Path) -> None:
    (project / "conf/train.yaml").unlink()
    (project / "conf/train.yaml").mkdir()
    assert codes(run(project)) == []


def test_an_editor_hears_of_the_files_that_the_code_names(project: Path) -> None:
    engine = LiveEngine(CheckOptions(cache=False, jobs=1))
    script, file = project / "train.py", project / "conf/train.yaml"
    result = engine.check([script], {}).result
    assert codes(result) == ["TL103"]
    assert str(file) in result.inputs
    file.write_text(FOUR, encoding="utf-8")
    engine.forget([file])
    assert codes(engine.check([script], {}).result) == []
    file.unlink()
    engine.forget([file])
    assert codes(engine.check([script], {}).result) == []
    file.write_text(NONE, encoding="utf-8")
    engine.forget([file])
    assert codes(engine.check([script], {}).result) == ["TL103"]
    engine.close()


NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "a path": ('open("conf/a.yaml")', ("conf/a.yaml",)),
    "single quotes": ("open('a.yml')", ("a.yml",)),
    "a path in parts": ('Path("conf") / "sub" / "a.json"', ("a.json", "sub/a.json", "conf/sub/a.json")),
    "a path that is joined": ('os.path.join("conf", "a.toml")', ("a.toml", "conf/a.toml")),
    "a text with a gap": ('f"conf/{name}.yaml"', ()),
    "something else": ('open("a.yaml.txt", a.yaml)', ()),
    "no name of a file": (
        'open("a\0.yaml"); open(Path("b\0") / "c.yaml"); import hydra; config_path="d\0"',
        ("c.yaml", "*.sh"),
    ),
    "Hydra": ('import hydra\n@hydra.main(config_path="conf", config_name="a")', ("*.sh", "conf/")),
    "Hydra without a path": ('import hydra\n@hydra.main(version_base=None, config_name="a")', ("*.sh", "./")),
}


@pytest.mark.parametrize(("source", "names"), NAMES.values(), ids=NAMES)
def test_names_of_configuration_files_are_found_without_a_parse(source: str, names: tuple[str, ...]) -> None:
    assert scan(source.encode()).configurations == names


def test_files_are_looked_for_in_the_folders_up_to_the_root_and_nowhere_else(tmp_path: Path) -> None:
    code = tmp_path / "tools" / "train.py"
    found = places(tmp_path, [(code, ["a.yaml", "../b.yaml", "../../c.yaml", "/etc/d.yaml"])])
    assert found == [str(tmp_path / name) for name in ("tools/a.yaml", "a.yaml", "b.yaml")]


def test_a_folder_that_holds_data_as_well_is_not_searched_to_the_end(tmp_path: Path) -> None:
    write(tmp_path, {"conf/a.yaml": "a: 1", "data/b.yaml": "b: 1", "train.py": ""})
    code = tmp_path / "train.py"
    assert {str(tmp_path / name) for name in ("conf/a.yaml", "data/b.yaml")} < set(places(tmp_path, [(code, ["./"])]))
    for number in range(10_000):
        (tmp_path / "data" / str(number)).touch()
    assert places(tmp_path, [(code, ["./"])]) == [str(tmp_path), str(tmp_path / "conf/a.yaml")]


LAUNCHED = """
    import argparse
    import torch
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms

    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=512)
    args = parser.parse_args()
    loader = DataLoader(datasets.CIFAR10("data", transform=transforms.ToTensor()), num_workers=args.workers)
"""


def test_what_launch_scripts_pass_counts_cold_and_warm(tmp_path: Path) -> None:
    project = write(tmp_path / "project", {"tools/train.py": LAUNCHED})
    for _ in range(2):
        assert codes(run(project, cache=True)) == codes(run(project)) == ["TL107"]
        write(project, {"scripts/train.sh": "python tools/train.py --workers 16"})
        assert codes(run(project, cache=True)) == codes(run(project)) == []
        (project / "scripts/train.sh").unlink()
