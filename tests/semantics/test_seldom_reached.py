"""Code on the path of each step that is seldom reached: what is kept, given up early, or run by itself."""

from __future__ import annotations

import pytest
from marked_programs import check, plain, table

from trainlint.lint.analyze import analyze
from trainlint.semantics.vocabulary import Confidence

LAYER = """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = None
        self.seen = {{}}

    def forward(self, inputs):
        {body}

model = nn.Sequential(Layer(), nn.Linear(3072, 10)).to(device)
for images, labels in train_loader:
    loss = criterion(model(images.to(device)), labels.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

KEPT = {
    "kept until a longer one is asked for": """
        if self.table is not None:
            if self.table.size(0) >= inputs.size(1):
                return inputs + self.table
        print("made anew")  # runs: per-epoch training
        self.table = torch.arange(inputs.size(1), device=inputs.device)
        return inputs
        """,
    "kept for as long as the shape stays": """
        if self.table is not None and self.table.size(0) == inputs.size(1):
            return inputs
        print("made anew")  # runs: per-epoch training
        self.table = torch.arange(inputs.size(1), device=inputs.device)
        return inputs
        """,
    "a flag that says that it is there": """
        if self.ready:
            return inputs
        print("made once")  # runs: per-epoch training
        self.ready = True
        return inputs
        """,
    "a buffer that says that it is there": """
        if self.ready or not self.training:
            return inputs
        print("made once")  # runs: per-epoch training
        self.ready.data.copy_(torch.Tensor([True]))
        return inputs
        """,
    "a global flag that says that it was done": """
        global told
        if told:
            return inputs
        print("once")  # runs: per-epoch training
        told = True
        return inputs
        """,
    "a flag of the call alone": """
        told = inputs.size(0) > 3
        if told:
            return inputs
        print("each time")  # runs: per-step training
        told = True
        return inputs
        """,
    "a flag that is taken down again": """
        if self.busy:
            return inputs
        self.busy = True
        print("each time")  # runs: per-step training
        self.busy = False
        return inputs
        """,
    "a flag that others put up": """
        if self.frozen:
            return inputs
        print("each time")  # runs: per-step training
        self.seen[0] = True
        return inputs
        """,
    "entered where it is missing": """
        if "table" not in self.seen:
            print("made anew")  # runs: per-epoch training
            self.seen["table"] = torch.arange(inputs.size(1), device=inputs.device)
        return inputs
        """,
    "entered where it is missing, whatever it is called": """
        if "table" not in self.accum_parts:
            print("made anew")  # runs: per-epoch training
            self.accum_parts["table"] = torch.arange(inputs.size(1), device=inputs.device)
        return inputs
        """,
    "looked up, and entered where it is missing": """
        made = self.seen.get("table")
        if made is None:
            print("made anew")  # runs: per-epoch training
            made = torch.arange(inputs.size(1), device=inputs.device)
            self.seen["table"] = made
        return inputs + made
        """,
    "looked up, and asked whether it still serves": """
        made = self.seen.get("table")
        if made is None or made.size(0) < inputs.size(0):
            print("made anew")  # runs: per-epoch training
            made = torch.arange(inputs.size(1), device=inputs.device)
            self.seen["table"] = made
        return inputs + made
        """,
    "looked up, or made anew each time": """
        made = self.seen.get("table")
        if made is None or self.training:
            print("each time")  # runs: per-step training
            made = torch.arange(inputs.size(1), device=inputs.device)
            self.seen["table"] = made
        return inputs + made
        """,
    "looked up in one place and entered in another": """
        made = self.seen.get("table")
        if made is None:
            print("each time")  # runs: per-step training
            self.seen["other"] = inputs.mean()
        return inputs
        """,
    "looked up and found": """
        made = self.seen.get("table")
        if made is not None:
            print("each time")  # runs: per-step training
            self.seen["table"] = inputs.mean()
        return inputs
        """,
    "entered by a method that is called": """
        if "table" not in self.seen:
            self.enter("table", inputs)
        return inputs

    def enter(self, key, inputs):
        print("made anew")  # runs: per-epoch training
        self.seen[key] = torch.arange(inputs.size(1), device=inputs.device)
        """,
    "a method that enters something else": """
        if "table" not in self.seen:
            self.enter("table", inputs)
        return inputs

    def enter(self, key, inputs):
        print("each time")  # runs: per-step training
        self.table[key] = torch.arange(inputs.size(1), device=inputs.device)
        """,
    "asked for at an interval": """
        if not self.should_update_logs:
            return inputs
        print("at an interval")  # runs: per-n-steps training
        return inputs
        """,
    "updated from what it was": """
        if self.table is not None and self.training:
            return inputs
        print("each time")  # runs: per-step training
        self.table = 0.9 * self.table + 0.1 * inputs.mean()
        return inputs
        """,
    "nothing is kept while there is nothing": """
        if self.table is None:
            return inputs
        print("each time")  # runs: per-step training
        self.table = inputs.mean()
        return inputs
        """,
    "missing in a collection of this step": """
        found = {}
        if "table" not in found:
            print("each time")  # runs: per-step training
            found["table"] = inputs.mean()
        return inputs
        """,
}


@table(KEPT)
def test_what_is_kept_is_made_seldom(files: str) -> None:
    check(plain(LAYER.format(body=files.strip())))


ALONE = {
    "its own optimizer": "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    "a pretrained model": "model = make().from_pretrained('weights')",
    "an optimizer of a factory": "optimizer = factories.create_optimizer(model)",
}
STEP = """
import torch

def one_step(model, make, factories, inputs):
    {start}
    loss = model(inputs.cuda()).mean()
    loss.backward()
    print(loss)
"""


@table(ALONE)
def test_a_function_that_makes_what_it_trains_is_no_step(files: str) -> None:
    project = analyze({"train.py": STEP.format(start=files)})
    assert not any(report.context.hot for report in project.reports)


def test_a_schedule_of_averaged_weights_takes_no_step() -> None:
    project = analyze(
        {
            "average.py": """
from torch.optim.swa_utils import SWALR, AveragedModel

class Average:
    def fit_start(self, state):
        self.scheduler = SWALR(state.optimizers[0], swa_lr=0.01)
        self.averaged = AveragedModel(state.model)

    def apply(self, state):
        self.averaged.update_parameters(state.model)
        self.scheduler.step()
        print("averaged")
"""
        }
    )
    assert not any(report.context.hot for report in project.reports)


GRADIENTS = """
import torch

class Net:
    def {name}(self, model, inputs):
        outputs = model(inputs.cuda())
        outputs.sum().backward()
        {then}
        print(outputs)
"""


def gradients(name: str, then: str = "pass") -> list[bool]:
    project = analyze({"train.py": GRADIENTS.format(name=name, then=then)})
    assert project.reports
    return [report.context.hot for report in project.reports]


def test_a_function_that_only_asks_for_gradients_is_no_step() -> None:
    assert not any(gradients("compute_saliency"))
    assert not any(gradients("check_gradients"))
    assert not any(gradients("saliency", "for output in outputs: output.backward(); print(output)"))


def test_a_function_that_goes_backward_is_a_step_by_its_name_or_by_its_update() -> None:
    for name in ("training_step", "backward_generator", "compute_loss", "learn"):
        assert all(gradients(name)), name
    assert all(gradients("compute_saliency", "self.optimizer.step()"))


def test_a_function_that_trains_what_it_is_given_is_a_step() -> None:
    project = analyze({"train.py": STEP.format(start="pass")})
    assert all(report.context.hot for report in project.reports)
    assert project.reports


def test_what_is_drained_from_somewhere_is_often_nothing() -> None:
    check(
        plain("""
    for images, labels in train_loader:
        loss = criterion(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        rewards = source.pop_rewards()
        if rewards:
            print("an episode is over")  # under: data
        shown = source.rewards()
        if shown:
            print("rewards")  # under: flag
    """)
    )


def test_a_forward_that_asks_for_a_text_is_given_tokens_in_training() -> None:
    project = analyze(
        {
            "reader.py": """
import torch
from torch import nn

class Reader(nn.Module):
    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer
        self.layer = nn.Linear(3, 3).cuda()

    def forward(self, given):
        if isinstance(given, (str, list)):
            given = self.tokenizer(given, return_tensors="pt")
        return self.layer(given)

def train(model, loader, optimizer):
    for batch in loader:
        model(batch).mean().backward()
        optimizer.step()
"""
        }
    )
    (tokenization,) = project.tokenizations
    assert tokenization.context.confidence is Confidence.LOW


RUNS = {
    "a first update, so that a scheduler may follow": """
    optimizer.zero_grad()
    optimizer.step()
    print("once")
    for inputs in DataLoader(dataset):
        model(inputs.cuda()).mean().backward()
        optimizer.step()
""",
    "a step that is tried out before a framework trains": """
    model(torch.zeros(8, 3, device="cuda")).mean().backward()
    optimizer.step()
    print("once")
    pytorch_lightning.Trainer().fit(model, DataLoader(dataset))
""",
    "another framework": """
    model(torch.zeros(8, 3, device="cuda")).mean().backward()
    optimizer.step()
    print("once")
    transformers.Trainer(model=model, train_dataset=dataset).train()
""",
}
RUN = """
import pytorch_lightning
import torch
import transformers
from torch.utils.data import DataLoader

def train(model, optimizer, dataset):
{body}
"""


@table(RUNS)
def test_a_function_that_trains_in_passes_is_no_step_for_what_it_tries_out_before(files: str) -> None:
    project = analyze({"train.py": RUN.format(body=files)})
    assert project.reports
    assert not any(report.context.hot for report in project.reports)


def test_steps_that_find_out_what_fits_train_nothing() -> None:
    check(
        plain("""
        def probe_batch_size(model, size):
            while size < 1024:
                loss = model(torch.rand(size, 3072, device=device)).mean()
                loss.backward()
                optimizer.step()
                print("tried")  # runs: once setup
                size *= 2
            return size

        probe_batch_size(model, 1)
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            print("trained")  # runs: per-step training
        """)
    )


DUE = {
    "a path that is set at intervals": """
        path = None
        if step % 100 == 0:
            path = "last.pt"
        if step in (10, 20):
            path = f"at_{step}.pt"
        if path:
            print(path)  # runs: per-n-steps training
        """,
    "asked whether it is None": """
        due = None
        if step % 100 == 0:
            due = step
        if due is not None:
            print(due)  # runs: per-n-steps training
        """,
    "set without a condition too": """
        path = None
        if step % 100 == 0:
            path = "last.pt"
        path = "each.pt"
        if path:
            print(path)  # runs: per-step training
        """,
    "set under another condition": """
        path = None
        if step % 100 == 0:
            path = "last.pt"
        if config.save:
            path = "each.pt"
        if path:
            print(path)  # runs: per-step training
        """,
    "set by a loop": """
        path = None
        if step % 100 == 0:
            path = "last.pt"
        for path in config.paths:
            pass
        if path:
            print(path)  # runs: per-step training
        """,
    "never cleared": """
        if step % 100 == 0:
            path = "last.pt"
        if config.clear:
            path = None
        if path:
            print(path)  # runs: per-step training
        """,
    "a switch that no call turns on": """
        save(step)

def save(step, last=False):
    if last or step % 100 == 0:
        print("saved")  # runs: per-n-steps training
        """,
    "a helper that tells, and what else it asks": """
        if is_due(step, config.every, True):
            print("due")  # runs: per-n-steps training

def is_due(step, every, at_zero=False):
    if every == 0:
        return False
    return (at_zero or step != 0) and step % every == 0
        """,
    "a helper that a branch answers for": """
        if is_due(step, config.every, True):
            print("due")  # runs: per-step training

def is_due(step, every, always=False):
    if always:
        return True
    return step % every == 0
        """,
}
LOOP = """
def main():
    for step, (images, labels) in enumerate(train_loader):
        loss = criterion(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        {body}

main()
"""


@table(DUE)
def test_a_variable_or_a_helper_tells_that_something_is_due(files: str) -> None:
    check(plain(LOOP.format(body=files.strip())))


EMPTY = {
    "one value for what is left": ("x.mean() if x.numel() > 0 else torch.tensor(0.0, device=x.device)", False),
    "the other way round": ("torch.tensor(0.0, device=x.device) if x.shape[0] == 0 else x.mean()", False),
    "of a size": ("torch.tensor(0.0, device=x.device) if not x.size(0) > 0 else x.mean()", False),
    "a size that is usual": ("torch.tensor(0.0, device=x.device) if x.shape[0] > 0 else x.mean()", True),
    "another bound": ("torch.tensor(0.0, device=x.device) if x.shape[0] == 8 else x.mean()", True),
}


@pytest.mark.parametrize(("value", "shown"), EMPTY.values(), ids=EMPTY.keys())
def test_what_stands_in_for_an_empty_tensor_is_seldom_made(value: str, shown: bool) -> None:
    project = analyze({"train.py": plain(LOOP.format(body=f"x = loss[loss > 0]\n        mean = {value}"))})
    found = [upload.context.confidence for upload in project.uploads if "0.0" in upload.text]
    assert found
    assert all(confidence is not Confidence.LOW for confidence in found) is shown


def test_a_model_computes_nothing_where_it_reads_a_checkpoint() -> None:
    check(
        plain("""
        path, states = model.load_checkpoint("last")
        step = states["consumed"] // 8 * 4 + 1
        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            if step % config.accumulated_gradient == 0:  # reads: unknown
                print(step)  # reads: unknown
            step += 1
        """)
    )
