"""Forwards that nobody is seen to call: which of them are parts of training steps."""

from __future__ import annotations

import inspect

import pytest
from marked_programs import check, contexts, table

from trainlint.lint.analyze import analyze
from trainlint.semantics.vocabulary import Confidence

TRAINS = """
import torch
from torch import nn


def fit(model, optimizer, loader):
    for batch in loader:
        loss = model(batch.cuda()).mean()
        loss.backward()
        optimizer.step()


"""
"""Head of a package that trains something, and has models that nothing in it makes."""


def package(body: str) -> str:
    return TRAINS.lstrip() + inspect.cleandoc(body) + "\n"


def confidence_of(body: str) -> set[Confidence]:
    """How sure it is that what the line marked `# here` records runs as often as is claimed."""
    source = package(body)
    row = next(number for number, line in enumerate(source.splitlines(), 1) if line.endswith("# here"))
    return {context.confidence for site, context in contexts(analyze({"package.py": source})) if site.row == row}


PART_OF_TRAINING = {
    "a model": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(8, 2)

            def forward(self, images):
                scores = self.head(images.cuda())
                print(scores.mean().item())  # here
                return scores
        """,
    "a layer without parameters": """
        class Smooth(nn.Module):
            def forward(self, images):
                images = images.cuda()
                return images / images.max().item()  # here
        """,
    "a loss without parameters that cuts gradients off": """
        class HardNegativeLoss(nn.Module):
            def forward(self, scores, labels):
                labels = labels.detach()
                scores = scores.cuda()
                return scores.mean() / scores.sum().item()  # here
        """,
    "a layer that cuts gradients off on its way": """
        class Quantize(nn.Module):
            def forward(self, x):
                x = x.cuda()
                rounded = x + (x.round() - x).detach()
                return rounded / x.max().item()  # here
        """,
    "a layer that keeps statistics without gradients": """
        class Norm(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(8))

            def forward(self, x):
                x = x.cuda()
                with torch.no_grad():
                    self.mean.lerp_(x.mean(0), 0.1)
                return x / x.max().item()  # here
        """,
    "a layer that records no gradients outside of training": """
        class Drop(nn.Module):
            def forward(self, x):
                x = x.cuda()
                if not self.training:
                    with torch.no_grad():
                        return x
                return x / x.max().item()  # here
        """,
    "a model that detaches its inputs": """
        class Probe(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(8, 2)

            def forward(self, features):
                features = features.detach()
                scores = self.head(features.cuda())
                print(scores.mean().item())  # here
                return scores
        """,
    "a solver that holds a model": """
        class Matcher(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(8, 2) for _ in range(4)])

            def forward(self, points):
                with torch.no_grad():
                    return self.layers[0](points.cuda()).mean().item()  # here
        """,
}


@pytest.mark.parametrize("body", PART_OF_TRAINING.values(), ids=PART_OF_TRAINING.keys())
def test_who_trains_what_a_library_offers_is_not_in_sight(body: str) -> None:
    assert confidence_of(body) == {Confidence.MEDIUM}


DOUBTFUL = {
    "a solver without parameters that returns without gradients": """
        class Ransac(nn.Module):
            def __init__(self, rounds: int = 10):
                super().__init__()
                self.rounds = rounds

            def forward(self, points):
                with torch.no_grad():
                    return self.solve(points.cuda())

            def solve(self, points):
                best = points.mean()
                return best.item()  # here
        """,
    "a solver that goes on without the graph of its inputs": """
        class Assign(nn.Module):
            def forward(self, points, labels):
                points = points.detach().cuda()
                return points.max().item()  # here
        """,
    "a solver inside of a solver": """
        class Inner(nn.Module):
            def forward(self, points):
                points = points.detach().cuda()
                return points.max().item()  # here

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, points):
                points = points.detach()
                return self.inner(points)
        """,
    "what follows an object through a video": """
        class PlanarTracker(nn.Module):
            def __init__(self):
                super().__init__()
                self.features = nn.Conv2d(3, 8, 3)

            def forward(self, frame):
                matches = self.features(frame.cuda())
                self.found = matches.sum().item()  # here
                return matches
        """,
    "what makes results of outputs": """
        class PostProcess(nn.Module):
            def forward(self, outputs):
                return outputs.cuda().argmax().item()  # here
        """,
}


@pytest.mark.parametrize("body", DOUBTFUL.values(), ids=DOUBTFUL.keys())
def test_what_nothing_can_be_trained_through_may_be_no_part_of_training(body: str) -> None:
    assert confidence_of(body) == {Confidence.LOW}


def test_a_layer_is_judged_by_itself_where_only_a_doubtful_forward_is_seen_to_call_it() -> None:
    assert confidence_of("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(8, 2)

            def forward(self, images):
                scores = self.head(images.cuda())
                print(scores.mean().item())  # here
                return scores

        class BoxTracker(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = Net()

            def forward(self, frame):
                return self.net(frame)
        """) == {Confidence.LOW, Confidence.MEDIUM}


@table(
    {
        "with the optimizer that it makes": package("""
            class Calibration(nn.Module):
                def __init__(self, model):
                    super().__init__()
                    self.temperature = nn.Parameter(torch.ones(1))

                def forward(self, scores, labels):
                    scores = scores.cuda()
                    optimizer = torch.optim.LBFGS([self.temperature], lr=0.01)

                    def closure():
                        optimizer.zero_grad()
                        loss = nn.functional.cross_entropy(scores / self.temperature, labels)
                        loss.backward()
                        return loss

                    optimizer.step(closure)
                    print(scores.mean().item())  # runs: once setup
                    return scores / self.temperature
            """),
        "with the optimizer that it was made with": package("""
            class Learner(nn.Module):
                def __init__(self, model):
                    super().__init__()
                    self.head = nn.Linear(8, 2)
                    self.optimizer = torch.optim.SGD(self.head.parameters(), lr=0.01)

                def forward(self, images, labels):
                    scores = self.head(images.cuda())
                    loss = nn.functional.cross_entropy(scores, labels)
                    loss.backward()
                    self.optimizer.step()
                    print(scores.mean().item())  # runs: per-step training
                    return loss
            """),
    }
)
def test_a_forward_that_updates_parameters(files: str) -> None:
    check(files)


def test_a_loop_over_layers_that_fit_something_by_themselves_is_no_step_loop() -> None:
    project = analyze(
        {
            "package.py": package("""
        class Quantize(nn.Module):
            def __init__(self):
                super().__init__()
                self.codes = nn.Parameter(torch.zeros(8))
                self.optimizer = torch.optim.SGD([self.codes], lr=0.1)

            def forward(self, x):
                loss = (x - self.codes).square().mean()
                loss.backward()
                self.optimizer.step()
                return self.codes

        class Levels(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([Quantize() for _ in range(4)])

            def forward(self, x):
                total = torch.zeros_like(x)
                for layer in self.layers:
                    total = total + layer(x)
                return total
        """)
        }
    )
    (loop,) = project.step_loops
    assert loop.site.symbol == "fit"
    assert not project.kept_graphs


def test_layers_that_step_the_optimizers_they_were_made_with_are_there_to_train() -> None:
    check("""
import torch
from torch import nn


class Quantize(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Parameter(torch.zeros(8))
        self.optimizer = torch.optim.SGD([self.codes], lr=0.1)

    def forward(self, x):
        loss = (x - self.codes).square().mean()
        loss.backward()
        self.optimizer.step()
        return self.codes


class Levels(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Quantize() for _ in range(4)])

    def forward(self, x):
        x = x.cuda()
        for layer in self.layers:
            x = layer(x)
        return x, x.sum().item()  # runs: per-step training
""")


def test_the_loop_of_a_forward_that_fits_something_is_a_step_loop() -> None:
    project = analyze(
        {
            "package.py": package("""
        class Adapt(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(8))
                self.optimizer = torch.optim.SGD([self.weight], lr=0.1)

            def forward(self, x):
                for _ in range(5):
                    loss = (x - self.weight).square().mean()
                    loss.backward()
                    self.optimizer.step()
                return self.weight
        """)
        }
    )
    assert {loop.site.symbol for loop in project.step_loops} == {"fit", "Adapt.forward"}


def test_a_tensor_goes_where_a_buffer_is_which_moves_with_its_module() -> None:
    check(
        package("""
        class Codebook(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.register_buffer("mean", torch.zeros(size))
                self.bound = torch.ones(size)

            def forward(self, x):
                x = x.cuda()
                mean = x.mean(0).to(self.mean)  # reads: unknown
                self.mean.lerp_(mean, 0.1)
                return x, x.to(self.bound)  # reads: device
        """)
    )


@pytest.mark.parametrize(("owner", "region"), [("ReplayBuffer", "training"), ("Diffusion", "evaluation")])
def test_what_hands_out_data_evaluates_nothing_as_it_samples(owner: str, region: str) -> None:
    check(f"""
import torch
from torch import nn


class Augment(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 8)

    def forward(self, batch):
        return self.mix(batch)


class {owner}:
    def __init__(self):
        self.augment = Augment().cuda()

    def sample(self, batch):
        while batch.shape[0] < 8:
            batch = self.augment(batch)  # runs: per-step {region}
        return batch


source = {owner}()
model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
    loss = model(source.sample(batch.cuda())).mean()
    loss.backward()
    optimizer.step()
""")


@pytest.mark.parametrize(
    ("file", "confidence"),
    [
        ("transforms.py", Confidence.LOW),
        ("data/transforms.py", Confidence.LOW),
        ("layers.py", Confidence.MEDIUM),
        ("transformers.py", Confidence.MEDIUM),
    ],
)
def test_a_module_without_parameters_among_transforms_prepares_items(file: str, confidence: Confidence) -> None:
    crop = """
    class Crop(nn.Module):
        def forward(self, image, boxes):
            boxes = boxes.cuda()
            if boxes.max() < 0.5:
                return image
            return image[boxes]
    """
    project = analyze({file: package(crop)})
    found = {sync.context.confidence for sync in project.syncs if sync.site.symbol == "Crop.forward"}
    assert found == {confidence}
