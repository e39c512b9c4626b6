from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, DecorateFunction, EnsureImport, Fix, GuardBlock
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Context, EvaluationForward, Project
from trainlint.semantics.vocabulary import Confidence, Frequency, GradMode, GuardKind, Region


class EvalWithoutNoGrad(Rule):
    """An evaluation loop records gradients that nobody asks for.

    ## What it does
    Reports a model's forward in an evaluation loop (one over data that never runs a backward pass) where neither
    `no_grad` nor `inference_mode` is in effect, whichever function or file would set it.

    ## Why it is slow
    Autograd records every operation and keeps the activations for a backward pass that never comes. That takes time at
    each operation, and memory that a larger evaluation batch could use. `model.eval()` does not switch it off.

    ## When it is fine
    Under a decorator, a context manager or a caller that disables gradients; where neither the model's parameters nor
    its inputs require them; where evaluation itself needs gradients, such as adversarial attacks.

    ## Example
    ```python
    def evaluate(model, loader):
        model.eval()
        for inputs, targets in loader:
            correct += (model(inputs).argmax(1) == targets).sum()
    ```

    ## Use instead
    ```python
    @torch.no_grad()
    def evaluate(model, loader):
        model.eval()
        for inputs, targets in loader:
            correct += (model(inputs).argmax(1) == targets).sum()
    ```

    ## Fix safety
    Unsafe: whatever in the loop does ask for gradients then fails. A function that only evaluates gets the decorator,
    any other loop gets a `with` block.

    ## How the probe confirms it
    By whether evaluation batches ran with gradients enabled and outputs that require them.

    ## References
    - PyTorch, Autograd mechanics, "Evaluation Mode":
      https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation
    """

    code, name, family = "TL216", "eval-without-no-grad", Family.STEP
    fix_class = Applicability.UNSAFE
    confirmed_by = "autograd nodes in evaluation"
    examples = (
        invalid(
            """
            import torch
            from torch import nn


            def evaluate(model, loader):
                model.eval()
                correct = 0
                for inputs, targets in loader:
                    outputs = model(inputs)  # expect: TL216
                    correct += (outputs.argmax(1) == targets).sum()
                return correct / len(loader.dataset)


            def train(model, loader, optimizer):
                model.train()
                for inputs, targets in loader:
                    loss = nn.functional.cross_entropy(model(inputs), targets)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            model = nn.Linear(8, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.zeros(64, dtype=torch.long))
            loader = torch.utils.data.DataLoader(dataset, batch_size=8)
            for epoch in range(3):
                train(model, loader, optimizer)
                print(evaluate(model, loader))
            """,
            because="eval() does not switch gradients off",
            fixed="""
            import torch
            from torch import nn


            @torch.no_grad()
            def evaluate(model, loader):
                model.eval()
                correct = 0
                for inputs, targets in loader:
                    outputs = model(inputs)
                    correct += (outputs.argmax(1) == targets).sum()
                return correct / len(loader.dataset)


            def train(model, loader, optimizer):
                model.train()
                for inputs, targets in loader:
                    loss = nn.functional.cross_entropy(model(inputs), targets)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            model = nn.Linear(8, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.zeros(64, dtype=torch.long))
            loader = torch.utils.data.DataLoader(dataset, batch_size=8)
            for epoch in range(3):
                train(model, loader, optimizer)
                print(evaluate(model, loader))
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.zeros(64, dtype=torch.long))
            train_loader = torch.utils.data.DataLoader(dataset, batch_size=8)
            val_loader = torch.utils.data.DataLoader(dataset, batch_size=8)
            for epoch in range(3):
                model.train()
                for inputs, targets in train_loader:
                    loss = nn.functional.cross_entropy(model(inputs), targets)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                model.eval()
                correct = 0
                for inputs, targets in val_loader:
                    outputs = model(inputs)  # expect: TL216
                    correct += (outputs.argmax(1) == targets).sum().item()
                print(epoch, correct)
            """,
            because="training and evaluation share the function",
            fixed="""
            import torch
            from torch import nn

            model = nn.Linear(8, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.zeros(64, dtype=torch.long))
            train_loader = torch.utils.data.DataLoader(dataset, batch_size=8)
            val_loader = torch.utils.data.DataLoader(dataset, batch_size=8)
            for epoch in range(3):
                model.train()
                for inputs, targets in train_loader:
                    loss = nn.functional.cross_entropy(model(inputs), targets)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                model.eval()
                correct = 0
                with torch.no_grad():
                    for inputs, targets in val_loader:
                        outputs = model(inputs)
                        correct += (outputs.argmax(1) == targets).sum().item()
                print(epoch, correct)
            """,
        ),
        invalid(
            """
            def predict(model, batch):
                return model(batch).argmax(1)  # expect: TL216
            """,
            because="the loop that calls it, in another file, records gradients",
            entry="predict.py",
            others={
                "test.py": """
                import torch
                from torch import nn

                from predict import predict

                model = nn.Linear(8, 4)
                model.load_state_dict(torch.load("model.pt"))
                model.eval()
                loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
                labels = []
                for batch in loader:
                    labels.append(predict(model, batch))
                print(torch.cat(labels))
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            from scoring import score

            data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
            loader = DataLoader(data, batch_size=8, num_workers=2)
            held_out = DataLoader(data, batch_size=8, num_workers=2)
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, (inputs, targets) in enumerate(loader):
                loss = nn.functional.mse_loss(model(inputs), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 200 == 0:
                    print(step, score(model, held_out))
            """,
            because="an evaluation every 200 steps, in another file",
            others={
                "scoring.py": """
                from torch import nn


                def score(model, loader):
                    model.eval()
                    total = 0.0
                    for inputs, targets in loader:
                        total += nn.functional.mse_loss(model(inputs), targets).item()  # expect: TL216
                    model.train()
                    return total / len(loader)
                """
            },
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset


            @torch.inference_mode()
            def score(model, loader):
                model.eval()
                total = sum(nn.functional.mse_loss(model(inputs), targets) for inputs, targets in loader)
                model.train()
                return total / len(loader)


            data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
            loader = DataLoader(data, batch_size=8, num_workers=2)
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, (inputs, targets) in enumerate(loader):
                loss = nn.functional.mse_loss(model(inputs), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 200 == 0:
                    print(step, score(model, loader))
            """,
            because="an evaluation every 200 steps, in inference mode",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Tagger(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.encoder = nn.Linear(32, 64)
                    self.scorer = nn.Linear(64, 8)

                def forward(self, inputs):
                    hidden = self.encoder(inputs)
                    best = None
                    if not self.training:
                        best = [self.scorer(row) for row in hidden]
                    return self.scorer(hidden).square().mean(), best


            model = Tagger().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(torch.load("inputs.pt"), batch_size=64, num_workers=4):
                loss, _ = model(inputs.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="training leaves the branch out; whoever evaluates decides about gradients",
        ),
        valid(
            """
            import torch
            from torch import nn


            @torch.no_grad()
            def evaluate(model, loader):
                model.eval()
                return sum(model(inputs).mean() for inputs in loader)


            model = nn.Linear(8, 4)
            print(evaluate(model, torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)))
            """,
            because="decorated",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 4)
            model.eval()
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            with torch.inference_mode():
                for inputs in loader:
                    print(model(inputs).argmax(1))
            """,
            because="under inference_mode",
        ),
        valid(
            """
            def evaluate(model, loader):
                model.eval()
                correct = 0
                for inputs, targets in loader:
                    correct += (model(inputs).argmax(1) == targets).sum()
                return correct
            """,
            because="the caller, in another file, disables gradients",
            entry="evaluation.py",
            others={
                "train.py": """
                import torch
                from torch import nn

                from evaluation import evaluate

                model = nn.Linear(8, 4)
                dataset = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.zeros(64, dtype=torch.long))
                loader = torch.utils.data.DataLoader(dataset, batch_size=8)
                with torch.no_grad():
                    print(evaluate(model, loader))
                """
            },
        ),
        valid(
            """
            import torch
            from torch import nn


            def run_epoch(model, loader, optimizer, train):
                model.train(train)
                with torch.set_grad_enabled(train):
                    for inputs in loader:
                        loss = model(inputs).pow(2).mean()
                        if train:
                            optimizer.zero_grad()
                            loss.backward()
                            optimizer.step()


            model = nn.Linear(8, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            run_epoch(model, loader, optimizer, True)
            run_epoch(model, loader, optimizer, False)
            """,
            because="set_grad_enabled follows the phase",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 4)
            model.requires_grad_(False)
            model.eval()
            for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
                print(model(inputs).argmax(1))
            """,
            because="nothing in it requires gradients",
        ),
        valid(
            """
            import torch
            from torch import nn

            model, teacher = nn.Linear(8, 4), nn.Linear(8, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model.train()
            teacher.eval()
            for batches in torch.utils.data.DataLoader(torch.randn(64, 2, 8), batch_size=8):
                optimizer.zero_grad()
                with torch.no_grad():
                    targets = teacher(batches)
                for index in range(2):
                    loss = (model(batches[:, index]) - targets[:, index]).pow(2).mean()
                    loss.backward()
                optimizer.step()
            """,
            because="the teacher evaluates, the model trains",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def main():
                teacher = nn.Linear(8, 4).eval().requires_grad_(False)
                student = nn.Linear(8, 4)
                optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
                for inputs in DataLoader(torch.randn(64, 8), batch_size=8):
                    loss = torch.zeros(())
                    for view in (inputs, inputs.flip(1)):
                        loss = loss + nn.functional.mse_loss(student(view), teacher(view))
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            main()
            """,
            because="the loop over views is a part of the training step, whatever was put into evaluation mode before",
        ),
        valid(
            """
            import torch


            def export(paths, build_model):
                built = {}
                for path in paths:
                    model = build_model(path)
                    model.eval()
                    built.update({path: model})
                return built


            print(export(["a", "b"], torch.load))
            """,
            because="a dictionary of models is no model",
        ),
        valid(
            """
            import torch
            from torch import nn


            @torch.no_grad()
            def scores(model, inputs):
                return model(inputs)


            def evaluate(model, loader):
                model.eval()
                return [nn.Softmax(dim=1)(scores(model, inputs)) for inputs in loader]


            print(evaluate(nn.Linear(8, 4), torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)))
            """,
            because="an activation has no parameters of its own",
        ),
        valid(
            """
            import torch
            from torch import nn


            class Predictor(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = nn.Linear(8, 8)

                def __call__(self, images, **options):
                    return self.predict(images, **options)

                def forward(self, images):
                    return self.layers(images)

                @torch.inference_mode()
                def predict(self, images, **options):
                    return self.forward(images)


            def evaluate(loader):
                model = Predictor().cuda()
                found = []
                for images in loader:
                    found.append(model(images.cuda(), conf=0.5).sum())
                return found


            print(evaluate(torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)))
            """,
            because="the model's own `__call__` switches gradients off",
        ),
        valid(
            """
            import torch
            from torch import nn
            from transformers import AutoModelForSequenceClassification


            def evaluate(prompts, functions=()):
                scorers = [AutoModelForSequenceClassification.from_pretrained("scorer").cuda(), *functions]
                rewards = []
                for prompt in torch.utils.data.DataLoader(prompts):
                    for scorer in scorers:
                        if isinstance(scorer, nn.Module):
                            with torch.inference_mode():
                                rewards.append(scorer(prompt.cuda()).logits)
                        else:
                            rewards.append(scorer(prompts=prompt))
                return rewards


            evaluate(torch.load("prompts.pt"))
            """,
            because="what is no model has no gradients",
        ),
        valid(
            """
            import torch
            from openvision.engine import BaseModule
            from torch import nn


            class Decoder(BaseModule):
                def __init__(self):
                    super().__init__()
                    self.embed = nn.Linear(8, 8)
                    self.classifier = nn.Linear(8, 4)

                def forward_train(self, features):
                    return self.classifier(self.embed(features))

                def forward_test(self, features, steps):
                    outputs = []
                    for step in range(steps):
                        features = self.embed(features)
                        outputs.append(self.classifier(features))
                    return torch.stack(outputs, dim=1)
            """,
            because="a base class that is out of sight calls it, and may have switched gradients off",
        ),
        valid(
            """
            import functools

            import torch
            from torch import nn


            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 8)

                def forward(self, inputs):
                    return self.layer(inputs)


            class Fusion(nn.Module):
                def __init__(self, width, models):
                    super().__init__()
                    self.models = nn.ModuleList(models)
                    self.head = nn.Linear(8 * len(models), width)

                def forward(self, inputs):
                    return self.head(torch.cat([model(inputs) for model in self.models], dim=-1))


            def create(name):
                if name == "fusion":
                    return functools.partial(Fusion, 4)
                return Encoder()


            def build(names):
                models = []
                fusion = None
                for name in names:
                    model = create(name)
                    if isinstance(model, functools.partial):
                        fusion = model
                    else:
                        models.append(model)
                return fusion(models=models)


            @torch.no_grad()
            def scores(model, inputs):
                return model(inputs)


            def evaluate(paths, names):
                found = []
                for path in paths:
                    model = build(names)
                    model.load_state_dict(torch.load(path))
                    model.eval()
                    found.append(scores(model, torch.ones(8, 8)))
                return found


            evaluate(torch.load("paths.pt"), torch.load("names.pt"))
            """,
            because="what makes a model is called, not the model",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Quantizer(nn.Module):
                def __init__(self, path):
                    super().__init__()
                    self.levels = nn.Embedding.from_pretrained(torch.load(path))

                def forward(self, codes):
                    return self.levels(codes).squeeze(-1)


            def decode(loader):
                quantizer = Quantizer("levels.pt").cuda()
                quantizer.eval()
                decoded = []
                for codes in loader:
                    decoded.append(quantizer(codes.cuda()).cpu())
                return decoded


            decode(DataLoader(torch.load("codes.pt"), batch_size=64, num_workers=4))
            """,
            because="its only layer was made frozen",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for forward in project.evaluations:
            if _per_batch(forward) and forward.context.grad is GradMode.ENABLED and not forward.frozen_inputs:
                yield self.finding(
                    forward,
                    f"{quote(forward.text)} records gradients during evaluation, where no backward pass uses them",
                    help="Evaluate under `torch.no_grad()` or `torch.inference_mode()`",
                    confidence=Confidence.HIGH if forward.certain else Confidence.MEDIUM,
                )

    def fix(self, finding: Finding) -> Fix | None:
        forward = finding.subject
        assert isinstance(forward, EvaluationForward)
        loop = forward.context.loop
        if loop is None or loop.function != forward.site.function:
            return Fix(Applicability.DISPLAY, "Put the evaluation loop under torch.no_grad()")
        needs = EnsureImport(forward.site, "torch")
        if forward.only_evaluates and loop.symbol:
            decorate = DecorateFunction(forward.site, "torch.no_grad()")
            return Fix(Applicability.UNSAFE, "Decorate the function with @torch.no_grad()", (decorate, needs))
        block = GuardBlock(loop, "with torch.no_grad()")
        return Fix(Applicability.UNSAFE, "Put the evaluation loop under torch.no_grad()", (block, needs))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        records = evidence.evaluation_records_graph
        return judge_condition(
            evidence,
            finding.site,
            records,
            unmeasured="no evaluation batch ran while the probe looked; probe past the end of an epoch",
            note=f"the outputs of evaluation batches {'require' if records else 'do not require'} gradients",
        )


def _per_batch(forward: EvaluationForward) -> bool:
    """Whether it belongs to an evaluation: one between training steps runs every so many of them."""
    context = forward.context
    per_batch = context.region is Region.EVALUATION and context.frequency >= Frequency.PER_N_STEPS
    return per_batch and not _left_out_of_training(context)


def _left_out_of_training(context: Context) -> bool:
    """Whether it is part of a training step that `if not self.training` leaves out: what holds for gradients where it
    does run is decided by who evaluates."""
    return any(
        guard.kind is GuardKind.EVALUATION and guard.in_step and guard.asked.module_mode for guard in context.guards
    )
