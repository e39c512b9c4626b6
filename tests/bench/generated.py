"""Training projects made by a deterministic generator: as large as asked for, and the same on every machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

_WORDS = """
    anchor batch channel cosine crop decay depth dropout embed epoch factor feature filter frame grid head hidden image
    index kernel label layer length level margin mask mean merge mixup momentum noise norm offset pad patch query rank
    ratio sample scale score segment shift smooth source span stride student target teacher token weight width window
"""
WORDS = [word for line in _WORDS.splitlines() for word in line.split()]


def write_training_project(root: Path, files: int = 300, lines_in_file: int = 330, seed: int = 0) -> None:
    """Write a repository of several training scripts over a package of models, data sets, losses and helpers.

    One in eight files is a script; all others are imported by scripts or by each other.
    """
    choose = random.Random(seed)
    root.mkdir(parents=True, exist_ok=True)
    (root / "pyproject.toml").write_text('[project]\nname = "generated"\nversion = "1"\n')
    kinds: list[tuple[str, Callable[[random.Random, list[str]], Iterator[str]]]] = [
        ("models", _model),
        ("data", _dataset),
        ("losses", _loss),
        ("tools", _tools),
        ("engines", _engine),
    ]
    names: dict[str, list[str]] = {kind: [] for kind, _ in kinds}
    (root / "generated").mkdir()
    (root / "generated/__init__.py").write_text("")
    for kind, _ in kinds:
        (root / "generated" / kind).mkdir()
        (root / "generated" / kind / "__init__.py").write_text("")
    for number in range(files * 7 // 8):
        kind, body = kinds[number % len(kinds)]
        name = f"{choose.choice(WORDS)}_{number}"
        others = [f"generated.{other}.{found}" for other in ("tools", "losses") for found in names[other][-6:]]
        imports = choose.sample(others, min(3, len(others))) if kind in ("engines", "models") else []
        text = _filled(choose, body, imports, lines_in_file)
        (root / "generated" / kind / f"{name}.py").write_text(text)
        names[kind].append(name)
    for number in range(files - files * 7 // 8):
        picked = [choose.choice(names[kind]) for kind in ("models", "data", "losses", "engines")]
        (root / f"train_{number}.py").write_text(_script(*picked))


def write_plain_project(root: Path, files: int = 300, lines_in_file: int = 330, seed: int = 1) -> None:
    """Write a repository whose code, all but one script, never meets a training library."""
    choose = random.Random(seed)
    root.mkdir(parents=True, exist_ok=True)
    (root / "pyproject.toml").write_text('[project]\nname = "plain"\nversion = "1"\n')
    for number in range(files - 1):
        folder = root / "plain" / f"part_{number % 12}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"module_{number}.py").write_text(_filled(choose, _tools, [], lines_in_file).replace("torch", "math"))
    (root / "train.py").write_text("import torch\n\n" + "\n".join(_loop(choose)) + "\n")


def _filled(
    choose: random.Random, body: Callable[[random.Random, list[str]], Iterator[str]], imports: list[str], lines: int
) -> str:
    text = [
        '"""Part of a generated project."""',
        "",
        "import math",
        "import os",
        "",
        "import torch",
        "from torch import nn",
    ]
    text += [f"from {one.rpartition('.')[0]} import {one.rpartition('.')[2]}" for one in imports]
    text += ["", ""]
    while len(text) < lines:
        text += body(choose, [one.rpartition(".")[2] for one in imports])
        text += ["", ""]
    return "\n".join(text)


def _name(choose: random.Random) -> str:
    return f"{choose.choice(WORDS)}_{choose.choice(WORDS)}_{choose.randrange(1000)}"


def _tools(choose: random.Random, imports: list[str]) -> Iterator[str]:
    first, second, third = (choose.choice(WORDS) for _ in range(3))
    yield f"def {_name(choose)}({first}_path, {second}=1.0, *, {third}=None):"
    yield f'    """Return the {first} of a {second}."""'
    yield f"    if {third} is None:"
    yield f'        {third} = {{"{first}": {second}, "limit": {choose.randrange(100)}}}'
    yield f'    {first} = os.path.join({first}_path, "{second}.txt")'
    yield "    total = 0.0"
    yield f"    for index, value in enumerate(sorted({third}.values())):"
    yield f"        if index % {choose.randrange(2, 9)} == 0 and value is not None:"
    yield f"            total += math.sqrt(abs(value)) * {choose.random():.3f}  # {choose.choice(WORDS)}"
    yield "        elif isinstance(value, str):"
    yield '            raise ValueError(f"{value} is no number")'
    yield f"    return [total, {first}, {second} if total > {choose.randrange(9)} else -{second}]"


def _loss(choose: random.Random, imports: list[str]) -> Iterator[str]:
    word = choose.choice(WORDS)
    yield f"class {word.title()}Loss{choose.randrange(10_000)}(nn.Module):"
    yield f"    def __init__(self, {word}_weight={choose.random():.2f}, eps=1e-6):"
    yield "        super().__init__()"
    yield f"        self.{word}_weight = {word}_weight"
    yield "        self.eps = eps"
    yield ""
    yield "    def forward(self, outputs, targets):"
    yield "        difference = (outputs - targets).abs()"
    yield f"        {word} = torch.where(difference < self.eps, difference ** 2 / self.eps, difference - self.eps / 2)"
    yield f"        return self.{word}_weight * {word}.mean() + {choose.random():.3f} * outputs.square().mean()"


def _model(choose: random.Random, imports: list[str]) -> Iterator[str]:
    word = choose.choice(WORDS)
    yield f"class {word.title()}Net{choose.randrange(10_000)}(nn.Module):"
    yield f"    def __init__(self, width={choose.randrange(32, 512)}, depth={choose.randrange(2, 9)}, **options):"
    yield "        super().__init__()"
    yield f'        self.stem = nn.Conv2d(3, width, {choose.randrange(1, 8)}, bias=options.get("bias", True))'
    yield "        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])"
    yield f"        self.{word} = nn.Parameter(torch.zeros(1, width))"
    yield ""
    yield "    def forward(self, x, mask=None):"
    yield "        x = self.stem(x).flatten(2).mean(-1)"
    yield "        for layer in self.layers:"
    yield f"            x = torch.relu(layer(x)) + self.{word}"
    yield "        if mask is not None:"
    yield "            x = x * mask"
    yield "        return x"


def _dataset(choose: random.Random, imports: list[str]) -> Iterator[str]:
    word = choose.choice(WORDS)
    yield f"class {word.title()}Dataset{choose.randrange(10_000)}(torch.utils.data.Dataset):"
    yield "    def __init__(self, folder, transform=None):"
    yield "        self.files = sorted(os.listdir(folder))"
    yield "        self.transform = transform"
    yield f"        self.{word} = {choose.randrange(1000)}"
    yield ""
    yield "    def __len__(self):"
    yield "        return len(self.files)"
    yield ""
    yield "    def __getitem__(self, index):"
    yield "        data = torch.load(self.files[index])"
    yield f'        sample = {{"x": data[: self.{word}], "y": data[self.{word} :]}}'
    yield "        return sample if self.transform is None else self.transform(sample)"


def _loop(choose: random.Random) -> Iterator[str]:
    word = choose.choice(WORDS)
    log_every = choose.randrange(10, 100)
    yield f"def train_{_name(choose)}(model, loader, criterion, optimizer, device, log_every={log_every}):"
    yield "    model.train()"
    yield f"    total_{word} = 0.0"
    yield "    for step, batch in enumerate(loader):"
    yield '        x, y = batch["x"].to(device), batch["y"].to(device)'
    yield "        loss = criterion(model(x), y)"
    yield "        optimizer.zero_grad()"
    yield "        loss.backward()"
    yield "        optimizer.step()"
    yield f"        total_{word} += loss.{choose.choice(['item()', 'detach()'])}"
    yield "        if step % log_every == 0:"
    yield f'            print(f"step {{step}}: {word} {{loss.item():.3f}}")'
    yield f"    return total_{word} / max(len(loader), 1)"


def _engine(choose: random.Random, imports: list[str]) -> Iterator[str]:
    yield from _loop(choose)
    yield ""
    yield ""
    yield f"def evaluate_{_name(choose)}(model, loader, criterion, device):"
    yield "    model.eval()"
    yield "    losses = []"
    yield "    with torch.no_grad():"
    yield "        for batch in loader:"
    yield '            losses.append(criterion(model(batch["x"].to(device)), batch["y"].to(device)).item())'
    yield "    return sum(losses) / max(len(losses), 1)"


def _script(model: str, data: str, loss: str, engine: str) -> str:
    return f'''"""A training script of a generated project."""

import argparse

import torch
from torch.utils.data import DataLoader

from generated.data import {data} as data
from generated.engines import {engine} as engine
from generated.losses import {loss} as losses
from generated.models import {model} as models


def first(module, prefix):
    return next(value for name, value in vars(module).items() if name.startswith(prefix))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="data")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    device = torch.device("cuda")
    model = torch.nn.Linear(8, 8).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(args.folder, batch_size=32, num_workers=args.workers)
    for epoch in range(args.epochs):
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            loss = (model(x) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 50 == 0:
                print(epoch, loss.item())


if __name__ == "__main__":
    main()
'''
