"""Precision: under which autocast a loss was computed, and whether a scaler multiplied it."""

from __future__ import annotations

import pytest
from marked_programs import PLAIN

from trainlint.lint.analyze import analyze
from trainlint.semantics.project import BackwardPass
from trainlint.semantics.values import Tensor


def backward(body: str) -> BackwardPass:
    """The only backward pass of a script whose step loop runs `body`."""
    loop = "for images, labels in train_loader:\n" + "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    (found,) = analyze({"train.py": PLAIN + loop}).backward_passes
    return found


FORWARD = "loss = criterion(model(images.to(device)), labels.to(device))"

AUTOCASTS = {
    "none": (f"{FORWARD}\nloss.backward()", ""),
    "float16 by default on CUDA": (f"with torch.autocast('cuda'):\n    {FORWARD}\nloss.backward()", "torch.float16"),
    "by default in the older spelling": (
        f"with torch.cuda.amp.autocast():\n    {FORWARD}\nloss.backward()",
        "torch.float16",
    ),
    "another type by default elsewhere": (f"with torch.autocast('cpu'):\n    {FORWARD}\nloss.backward()", "on"),
    "the type that is given": (
        f"with torch.autocast('cuda', dtype=torch.bfloat16):\n    {FORWARD}\nloss.backward()",
        "torch.bfloat16",
    ),
    "an unknown type": (f"with torch.autocast('cuda', dtype=pick()):\n    {FORWARD}\nloss.backward()", "on"),
    "switched off": (f"with torch.autocast('cuda', enabled=False):\n    {FORWARD}\nloss.backward()", ""),
    "the loss behind the region": (
        "with torch.autocast('cuda'):\n    outputs = model(images.to(device))\n"
        "loss = criterion(outputs, labels.to(device)) / 4\nloss.backward()",
        "torch.float16",
    ),
    "a model behind the region": (
        "with torch.autocast('cuda'):\n    features = model(images.to(device))\n"
        "loss = criterion(nn.Linear(10, 10).to(device)(features), labels.to(device))\nloss.backward()",
        "",
    ),
    "detached from it": (
        "with torch.autocast('cuda'):\n    outputs = model(images.to(device))\n"
        "loss = criterion(outputs.detach(), labels.to(device))\nloss.backward()",
        "",
    ),
}


@pytest.mark.parametrize(("body", "expected"), AUTOCASTS.values(), ids=AUTOCASTS.keys())
def test_a_loss_tells_under_which_autocast_it_was_computed(body: str, expected: str) -> None:
    loss = backward(body).loss
    assert isinstance(loss, Tensor)
    assert loss.autocast == expected


SCALINGS = {
    "by a scaler": ("torch.amp.GradScaler().scale(loss).backward()", True),
    "and kept in a variable": ("scaled = torch.amp.GradScaler().scale(loss)\nscaled.backward()", True),
    "by none": ("loss.backward()", False),
}


@pytest.mark.parametrize(("body", "expected"), SCALINGS.values(), ids=SCALINGS.keys())
def test_a_loss_tells_whether_a_scaler_multiplied_it(body: str, expected: bool) -> None:
    loss = backward(f"{FORWARD}\n{body}").loss
    assert isinstance(loss, Tensor)
    assert loss.scaled is expected


def test_a_backward_pass_tells_whether_its_function_names_scaling() -> None:
    program = "def {name}(loss, {argument}):\n    ({argument} * loss).backward()\n"
    named = analyze({"train.py": program.format(name="step", argument="loss_scale")}).backward_passes
    plainly = analyze({"train.py": program.format(name="step", argument="weight")}).backward_passes
    assert [one.names_scaling for one in named] == [True]
    assert [one.names_scaling for one in plainly] == [False]


NAMES = {
    "nothing": ("", (False, False, False)),
    "an option for float16": ("if args.fp16:\n    model.half()\n", (True, False, False)),
    "a library's precision": ("wrap(model, mixed_precision='bf16')\n", (True, False, False)),
    "TF32": ("torch.backends.cuda.matmul.allow_tf32 = True\n", (False, True, False)),
    "the precision of products": ("torch.set_float32_matmul_precision('high')\n", (False, True, False)),
    "float64": ("model = model.double()\n", (False, False, True)),
}


@pytest.mark.parametrize(("line", "expected"), NAMES.values(), ids=NAMES.keys())
def test_an_entry_point_tells_which_precisions_anything_it_imports_names(
    line: str, expected: tuple[bool, bool, bool]
) -> None:
    files = {
        "train.py": PLAIN + f"from engine import train\ntrain()\n{FORWARD}\nloss.backward()\n",
        "engine.py": "import torch\n\n\ndef train():\n    pass\n\n\ndef unused(model, args):\n"
        + "".join(f"    {row}\n" for row in (line or "pass\n").splitlines()),
    }
    (entry,) = (one for one in analyze(files).entries if one.path.name == "train.py")
    assert (entry.names_half, entry.names_tf32, entry.names_double) == expected


SPREAD = {
    "in one branch": ("settings = {}\nif known:\n    settings = {'dtype': torch.bfloat16}", True),
    "in each of two": (
        "if known:\n    settings = {'dtype': torch.float16}\nelse:\n    settings = {'dtype': torch.bfloat16}",
        False,
    ),
    "in any case": ("settings = {'dtype': torch.bfloat16}", False),
}


@pytest.mark.parametrize(("before", "unsure"), SPREAD.values(), ids=SPREAD.keys())
def test_what_one_branch_puts_into_a_dict_may_not_be_passed(before: str, unsure: bool) -> None:
    text = f"import torch\nfrom tools import known\n\n{before}\nwith torch.autocast('cuda', **settings):\n    pass\n"
    (call,) = analyze({"train.py": text}).calls_of("torch.autocast")
    assert ("dtype" in call.arguments.unsure) is unsure
