"""What is known of a step loop: what is in force around it, and how long it may run."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze
from trainlint.semantics.project import StepLoop
from trainlint.semantics.vocabulary import Frequency

BODY = """
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
"""
PREPARED = """
import itertools
import torch
from torch import nn

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
batch = torch.randn(8, 8)
"""


def step_loop(source: str, **others: str) -> StepLoop:
    files = {"train.py": PREPARED + source} | {f"{name}.py": text for name, text in others.items()}
    (loop,) = analyze(files).step_loops
    return loop


def test_the_context_managers_around_a_loop_are_known_by_what_with_enters() -> None:
    loop = step_loop(f"""
with torch.profiler.profile() as outer, torch.autograd.set_detect_anomaly(False):
    for batch in loader:{BODY}
""")
    first = PREPARED.count("\n") + 2
    assert [(site.row, site.column) for site in loop.managers] == [(first, 5), (first, 40)]


def test_context_managers_of_a_caller_are_in_force_in_what_it_calls() -> None:
    loop = step_loop(
        """
from engine import fit

with torch.profiler.profile():
    fit(model, optimizer, loader)
""",
        engine="""
def fit(model, optimizer, loader):
    for batch in loader:
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
""",
    )
    assert [site.path.name for site in loop.managers] == ["train.py"]


def test_a_context_manager_that_was_left_is_no_longer_in_force() -> None:
    loop = step_loop(f"""
with torch.profiler.profile():
    model(batch)
if True:
    for batch in loader:{BODY}
""")
    assert loop.managers == ()


NO_BACKWARD_PASS = (
    "handles.append(module.register_full_backward_pre_hook(hook, prepend=True))",
    "handles.append(module.register_full_backward_hook(hook))",
    "outputs.append(module.backward_layer(outputs, lengths))",
    "check_backward_compatibility(module)",
    "outputs.append(backward_warp(batch, module.flow))",
    "callback.on_after_backward(module)",
)


@pytest.mark.parametrize("statement", NO_BACKWARD_PASS)
def test_what_is_named_for_something_else_than_a_backward_pass_runs_none(statement: str) -> None:
    project = analyze(
        {
            "layers.py": f"""
import torch
from elsewhere import backward_warp, callback, check_backward_compatibility, hook


def visit(modules, lengths, batch):
    handles, outputs = [], []
    for module in modules:
        {statement}
    return handles, outputs
"""
        }
    )
    assert project.backward_passes == [] and project.step_loops == [] and project.kept_graphs == []


@pytest.mark.parametrize(
    "statement", ["engine.model_backward_and_update(loss)", "engine.backward(loss)", "fused_backward(loss)"]
)
def test_a_backward_pass_is_known_by_a_part_of_its_name(statement: str) -> None:
    assert step_loop(f"""
def run(engine, fused_backward):
    for batch in loader:
        loss = model(batch).mean()
        {statement}
""")


LENGTHS = {
    "for step in range(20):": 20,
    "for step in range(STEPS):": 30,
    "for step in range(len(loader)):": None,
    "for step in range(2, 20):": None,
    "for batch in loader:": None,
}


@pytest.mark.parametrize(("header", "turns"), LENGTHS.items())
def test_the_program_text_may_say_how_often_a_loop_turns(header: str, turns: int | None) -> None:
    assert step_loop(f"STEPS = 30\nif True:\n    {header}{BODY}").turns == turns


@pytest.mark.parametrize(
    ("source", "ends_early"),
    [
        (f"if True:\n    for batch in loader:{BODY}", False),
        (f"if True:\n    for batch in loader:{BODY}        if loss < 0.1:\n            break", True),
        (f"if True:\n    for batch in itertools.islice(loader, 20):{BODY}", True),
        (f"if True:\n    for batch in loader:{BODY}        for layer in model.children():\n            break", False),
    ],
    ids=["runs to its end", "break", "islice", "a break of another loop"],
)
def test_a_loop_may_end_early(source: str, ends_early: bool) -> None:
    assert step_loop(source).ends_early is ends_early


LISTED = ["for rate in [0.1, 0.01]:", "for rate, seed in itertools.product([0.1, 0.01], (1, 2)):"]


@pytest.mark.parametrize("header", LISTED)
def test_a_loop_over_set_ups_that_the_text_spells_out_is_no_step_loop(header: str) -> None:
    source = f"""
def check(rate):
    loss = model(batch).square().mean()
    loss.backward()

{header}
    print("now", rate)
    check(rate)
"""
    project = analyze({"train.py": PREPARED + source})
    assert project.step_loops == []
    (report,) = project.reports
    assert report.context.frequency is Frequency.ONCE


@pytest.mark.parametrize("header", LISTED)
def test_a_loop_over_data_inside_of_one_over_set_ups_is_a_step_loop(header: str) -> None:
    loop = step_loop(f"""
def fit(rate):
    for batch in loader:
{BODY}

{header}
    fit(rate)
""")
    assert loop.context.frequency is Frequency.PER_STEP


@pytest.mark.parametrize(
    "call",
    [
        "model.register_full_backward_hook(print)",
        "model.register_full_backward_pre_hook(print, prepend=True)",
        "part.register_full_backward_pre_hook(print)",
        "part.set_backward_prefetch(3)",
        "remove_backward_hooks(part)",
    ],
)
def test_what_prepares_for_a_backward_pass_makes_no_step_loop(call: str) -> None:
    project = analyze({"train.py": f"{PREPARED}\nhandles = []\nfor part in parts:\n    handles.append({call})\n"})
    assert project.step_loops == []
    assert project.kept_graphs == []


@pytest.mark.parametrize(("name", "found"), [("benchmark", 0), ("train", 1), ("benchmark_training", 1)])
def test_a_loop_that_measures_backward_passes_is_no_step_loop(name: str, found: int) -> None:
    loop = "    for turn in range(10):\n        model(batch).sum().backward()\n        torch.cuda.synchronize()\n"
    project = analyze({"train.py": f"{PREPARED}\ndef {name}():\n{loop}\n{name}()\n"})
    assert len(project.step_loops) == found
    assert sum(call.context.hot for call in project.calls_of("torch.cuda.synchronize")) == found


def test_a_loop_that_updates_is_a_step_loop_whatever_its_function_is_called() -> None:
    loop = step_loop(f"""
def benchmark():
    for batch in loader:{BODY}
benchmark()
""")
    assert loop.steps


@pytest.mark.parametrize(
    ("name", "found"), [("compare_gradients", 0), ("_measure_peak", 0), ("benchmark_backward", 0), ("learn", 1)]
)
def test_a_loop_whose_backward_passes_all_run_in_measurements_is_no_step_loop(name: str, found: int) -> None:
    project = analyze(
        {
            "train.py": f"""{PREPARED}
def {name}(candidate):
    candidate(batch).sum().backward()

def examine(candidates):
    for candidate in candidates:
        {name}(candidate)
        torch.cuda.synchronize()

examine(find_models())
"""
        }
    )
    assert len(project.step_loops) == found
    assert sum(call.context.hot for call in project.calls_of("torch.cuda.synchronize")) == found


def test_a_measurement_in_a_loop_that_updates_leaves_it_a_step_loop() -> None:
    loop = step_loop("""
def profile_batch(batch):
    loss = model(batch).square().mean()
    loss.backward()

for batch in loader:
    profile_batch(batch)
    optimizer.step()
""")
    assert loop.context.frequency is Frequency.PER_STEP


def test_a_loop_over_the_losses_of_a_step_is_a_part_of_it() -> None:
    project = analyze(
        {
            "train.py": f"""{PREPARED}
def add_up(losses):
    total = 0
    for loss in losses:
        total += loss
        loss.backward()
    return total

for batch in loader:
    total = add_up(model.losses(batch))
    optimizer.step()
    print("total", total)
"""
        }
    )
    (loop,) = project.step_loops
    assert loop.site.symbol == ""
    assert project.kept_graphs == []


def test_a_loop_that_updates_after_the_backward_pass_of_each_item_goes_over_data() -> None:
    project = analyze(
        {
            "train.py": f"""{PREPARED}
for epoch in range(3):
    for loss in model.losses(loader):
        loss.backward()
        optimizer.step()
"""
        }
    )
    (loop,) = project.step_loops
    assert loop.site.row == PREPARED.count("\n") + 3


@pytest.mark.parametrize(
    ("path", "found"), [("bench_layers.py", 0), ("benchmarks/layers.py", 0), ("bench_training.py", 1), ("layers.py", 1)]
)
def test_a_file_of_benchmarks_that_updates_nothing_has_no_step_loop(path: str, found: int) -> None:
    loop = "    for _ in range(20):\n        model(batch).sum().backward()\n        torch.cuda.synchronize()\n"
    project = analyze({path: f"{PREPARED}\ndef main():\n{loop}\nmain()\n"})
    assert len(project.step_loops) == found


RUNS_OF_THEIR_OWN = (
    "for attempt in range(3):",
    "for attempt, setting in enumerate(settings):",
    "for retry_idx in range(retries):",
    "for fold in folds:",
    "for seed in range(5):",
)


@pytest.mark.parametrize("head", RUNS_OF_THEIR_OWN)
def test_turns_that_are_runs_of_their_own_are_no_steps(head: str) -> None:
    once = PREPARED + head + BODY.replace("        ", "    ")
    assert analyze({"train.py": once}).step_loops == []
    (loop,) = analyze({"train.py": PREPARED + f"{head}\n    for batch in loader:{BODY}"}).step_loops
    assert loop.site.row == PREPARED.count("\n") + 2


@pytest.mark.parametrize("head", ["for batch in loader:", "for step in range(3):", "for trial in range(1000):"])
def test_other_turns_that_update_are_steps(head: str) -> None:
    (loop,) = analyze({"train.py": PREPARED + head + BODY.replace("        ", "    ")}).step_loops
    assert loop.site.row == PREPARED.count("\n") + 1


def test_a_step_that_is_tried_again_is_a_step_of_the_loop_over_data() -> None:
    loop = step_loop(f"""
for batch in loader:
    for attempt in range(3):{BODY}
""")
    assert loop.site.row == PREPARED.count("\n") + 2


def test_a_loop_around_runs_of_their_own_has_no_steps_either() -> None:
    source = (
        PREPARED
        + f"""
for iteration in range(20):
    for attempt in range(3):{BODY}
"""
    )
    assert analyze({"train.py": source}).step_loops == []


def test_a_method_that_mixins_expect_by_a_protocol_is_that_of_the_class_behind_them() -> None:
    loop = step_loop("""
from typing import Protocol

class Expected(Protocol):
    def backward(self): ...

class Update(Expected):
    def fit(self):
        for batch in loader:
            self.loss = model(batch).mean()
            self.backward()

class Template(Expected):
    def backward(self):
        self.loss.backward()

class Strategy(Update, Template):
    pass

Strategy().fit()
""")
    assert loop.site.symbol == "Update.fit"


def test_a_backward_pass_that_the_call_switches_off_makes_no_step_loop() -> None:
    project = analyze(
        {
            "train.py": f"""{PREPARED}
def add_up(losses, backward=False):
    total = 0
    for loss in losses:
        total += loss
        if backward is True:
            loss.backward()
    return total

def test_epoch():
    for batch in loader:
        add_up(model.losses(batch))

def train_epoch():
    for batch in loader:
        add_up(model.losses(batch), backward=True)
        optimizer.step()

for epoch in range(3):
    train_epoch()
    test_epoch()
"""
        }
    )
    assert {loop.site.symbol for loop in project.step_loops} == {"train_epoch"}
