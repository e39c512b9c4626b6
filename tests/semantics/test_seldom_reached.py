"""Code on the path of each step that is seldom reached: what is kept, given up early, or run by itself."""

from __future__ import annotations

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
