from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import BackwardPass, Project


class RetainGraph(Rule):
    """A backward pass keeps the graph, and nothing goes through it again.

    ## What it does
    Reports `backward(retain_graph=True)` in a step loop where it is the only backward pass, and where no graph goes
    from one step to the next.

    ## Why it is slow
    A backward pass frees what the forward pass saved for it as it goes. With `retain_graph=True` all of it stays until
    the loss is replaced, which is after the next forward pass: the memory of two steps is needed at once, and the batch
    that fits gets smaller.

    ## When it is fine
    Where a second backward pass goes through a part of the same graph: several losses, the two players of a GAN, a
    gradient penalty, a hidden state that is not detached between steps.

    ## Example
    ```python
    loss = criterion(model(inputs), targets)
    loss.backward(retain_graph=True)
    optimizer.step()
    ```

    ## Use instead
    ```python
    loss.backward()
    ```
    If that fails with "Trying to backward through the graph a second time", find what carries the graph from one step
    to the next, and `detach()` it.

    ## Fix safety
    Display: whether nothing else needs the graph is what the next run tells.

    ## How the probe confirms it
    It leaves the verdict open: what one line keeps is not told from the rest of the memory. The peak memory of a run
    without it, compared by `trainlint probe --compare`, tells.

    ## References
    - PyTorch, Tensor.backward, on `retain_graph`: in nearly all cases it is not needed, and can be worked around more
      efficiently: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html
    - Memory decides the batch, and the batch the throughput (article 000).
    """

    code, name, family = "TL220", "retain-graph", Family.STEP
    fix_class = Applicability.DISPLAY
    confirmed_by = "peak memory, against a run without it"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            dataset = torch.utils.data.TensorDataset(torch.load("images.pt"), torch.load("labels.pt"))
            loader = DataLoader(dataset, batch_size=64)
            model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10)).cuda()
            criterion = nn.CrossEntropyLoss()
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                for images, labels in loader:
                    outputs = model(images.cuda())
                    loss = criterion(outputs, labels.cuda())
                    optimizer.zero_grad()
                    loss.backward(retain_graph=True)  # expect: TL220
                    optimizer.step()
                print(epoch, loss.item())
            """,
            because="the only backward pass of the step",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from network import Network

            device = torch.device("cuda")
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = Network().to(device)
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler()
            for step, inputs in enumerate(loader):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(inputs.to(device)).square().mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward(retain_graph=True)  # expect: TL220
                scaler.step(optimizer)
                scaler.update()
            """,
            because="through a scaler; the model, in another file, keeps nothing",
            others={
                "network.py": """
                from torch import nn


                class Network(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.first = nn.Linear(32, 64)
                        self.second = nn.Linear(64, 1)

                    def forward(self, inputs):
                        return self.second(self.first(inputs).relu())
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def train(model, loader, optimizer):
                losses = []
                for inputs in loader:
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward(retain_graph=True)  # expect: TL220
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    losses.append(loss.item())
                return losses


            model = nn.Linear(32, 1).cuda()
            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            print(train(model, loader, torch.optim.AdamW(model.parameters())))
            """,
            because="numbers are collected, which have no graph",
        ),
        invalid(
            """
            import torch
            from torch import nn

            model = nn.LSTM(8, 16).cuda()
            head = nn.Linear(16, 1).cuda()
            optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
            for step in range(10_000):
                sequence = torch.randn(50, 64, 8, device="cuda")
                hidden = torch.zeros(1, 64, 16, device="cuda"), torch.zeros(1, 64, 16, device="cuda")
                outputs, hidden = model(sequence, hidden)
                loss = head(outputs).square().mean()
                optimizer.zero_grad()
                loss.backward(retain_graph=True)  # expect: TL220
                optimizer.step()
            """,
            because="the hidden state starts anew at each step",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            generator, discriminator = nn.Linear(16, 32).cuda(), nn.Linear(32, 1).cuda()
            optimizer_g = torch.optim.Adam(generator.parameters())
            optimizer_d = torch.optim.Adam(discriminator.parameters())
            for images in loader:
                fake = generator(torch.randn(len(images), 16, device="cuda"))
                loss_d = discriminator(fake).mean() - discriminator(images.cuda()).mean()
                optimizer_d.zero_grad()
                loss_d.backward(retain_graph=True)
                optimizer_d.step()
                loss_g = -discriminator(fake).mean()
                optimizer_g.zero_grad()
                loss_g.backward()
                optimizer_g.step()
            """,
            because="a GAN: the second backward pass goes through the generator's graph again",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                inputs = inputs.cuda().requires_grad_()
                outputs = model(inputs)
                loss = outputs.square().mean()
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                (gradient,) = torch.autograd.grad(outputs.sum(), inputs)
                print(gradient.norm())
                optimizer.step()
            """,
            because="autograd.grad goes through the graph again",
        ),
        valid(
            """
            import torch
            from torch import nn

            cell = nn.GRUCell(8, 16).cuda()
            optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
            hidden = torch.zeros(64, 16, device="cuda")
            for step in range(10_000):
                hidden = cell(torch.randn(64, 8, device="cuda"), hidden)
                loss = hidden.square().mean()
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                optimizer.step()
            """,
            because="the hidden state carries the graph from one step to the next",
        ),
        valid(
            """
            import torch
            from torch import nn


            class Recurrent(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.cell = nn.GRUCell(8, 16)
                    self.hidden = torch.zeros(64, 16)

                def forward(self, inputs):
                    self.hidden = self.cell(inputs, self.hidden)
                    return self.hidden


            model = Recurrent()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(10_000):
                loss = model(torch.randn(64, 8)).square().mean()
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                optimizer.step()
            """,
            because="the model keeps its hidden state, with the graph",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 4).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            embedding = model.weight.square().mean(1)
            for inputs in loader:
                losses = (model(inputs.cuda()) * embedding).square().mean(0)
                optimizer.zero_grad()
                for loss in losses:
                    loss.backward(retain_graph=True)
                optimizer.step()
            """,
            because="several losses share a graph, a part of which is older than the loop",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            embedding = model.weight.square().mean()
            total = 0
            for step, inputs in enumerate(loader):
                total = total + model(inputs.cuda()).square().mean() * embedding
                if step > 0:
                    loss = total / previous
                else:
                    loss = total
                previous = loss
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                optimizer.step()
            """,
            because="a sum of losses goes on, and so does what was computed before the loop",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from curvature import penalize

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                penalize(loss, model)
                optimizer.step()
            """,
            because="a library that is not known is given the loss, and may differentiate it",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for backward in project.backward_passes:
            if backward.retains_graph and backward.graph_ends_with_step and _is_only_one(backward, project):
                yield self.finding(
                    backward,
                    f"{quote(backward.text)} keeps the graph of each step, and nothing goes through it again",
                    help="Leave `retain_graph` out, so that the pass frees what it has used",
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, "Call `backward()` without `retain_graph=True`")

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        unmeasured = "what the graph keeps is not told from other memory; compare with a run without it: --compare"
        return judge_condition(evidence, finding.site, None, unmeasured=unmeasured)


def _is_only_one(backward: BackwardPass, project: Project) -> bool:
    """Whether it runs once at each ordinary step, and nothing else in its program differentiates a graph."""
    context = backward.context
    if not (context.hot and context.routine) or context.loop is None or context.loop != backward.loop:
        return False
    # a pass elsewhere in the program may go through this graph as well, and costs nothing to believe
    elsewhere = [other for other in project.backward_passes if other.context.entry is context.entry]
    more = project.calls_of("torch.autograd.grad", "torch.autograd.functional.hvp", "torch.autograd.functional.vhp")
    again = any(call.context.entry is context.entry for call in more)
    return not again and all(other.site == backward.site for other in elsewhere)
