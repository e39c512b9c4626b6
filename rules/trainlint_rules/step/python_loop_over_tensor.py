from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, RelatedSite, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.project import ElementLoop, Project

AT_ONCE = "Compute with the whole tensor at once, or map what computes with one item over all of them: `torch.vmap`"


class PythonLoopOverTensor(Rule):
    """A Python loop computes with the items of a GPU tensor one by one, at every training step.

    ## What it does
    Reports, per training step, `for` loops and comprehensions over a tensor on the GPU, or over the numbers of its
    items (`for i in range(x.size(0))` with `x[i]`), whose turns compute with one item each and depend on nothing that
    an earlier turn left.

    ## Why it is slow
    Each turn launches kernels of its own, which are as small as one item. To launch one takes the host longer than the
    GPU needs to run it, so that the GPU waits for Python; the same kernel over the whole tensor is launched once. The
    backward pass has as many kernels again.

    ## When it is fine
    Where a turn needs the result of the one before, as in a recurrence, or where items have different sizes; such loops
    are not reported, nor are loops over layers, over lists of tensors or over parts of several items each. A few turns,
    and items that are so large that each fills the GPU: that is why the rule is not in the default set.

    ## Example
    ```python
    losses = []
    for i in range(outputs.size(0)):
        losses.append((outputs[i] - targets[i]).square().sum())
    loss = torch.stack(losses).mean()
    ```

    ## Use instead
    ```python
    loss = (outputs - targets).square().flatten(1).sum(1).mean()
    ```
    Where the code for one item is hard to write for all of them, `torch.vmap(loss_of_one)(outputs, targets)`.

    ## Fix safety
    Advice without edits: how to write it for all items depends on what is computed. Sums are taken in another order,
    so that results differ in their last digits.

    ## How the probe confirms it
    It does not, line by line: kernels are not counted by line. Of the run as a whole, many short kernels and a GPU that
    waits for launches show as TL902.

    ## References
    - 100 % GPU-Util and still slow: many tiny kernels; launch overhead shows where a kernel takes tens of microseconds
      (articles 000, 003).
    - PyTorch, torch.vmap: https://docs.pytorch.org/docs/stable/generated/torch.func.vmap.html
    """

    code, name, family = "TL219", "python-loop-over-tensor", Family.STEP
    severity = Severity.INFO
    fix_class = Applicability.DISPLAY
    default = False
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            loader = DataLoader(TensorDataset(torch.load("inputs.pt"), torch.load("targets.pt")), batch_size=64)
            model = nn.Linear(32, 8).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, targets in loader:
                outputs = torch.sigmoid(model(inputs.cuda()))
                targets = targets.cuda().float()
                losses = []
                for i in range(outputs.size(0)):  # expect: TL219
                    losses.append((outputs[i] - targets[i]).square().sum())
                loss = torch.stack(losses).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a loss of each sample by itself",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from losses import contrast

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 16).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                embeddings = nn.functional.normalize(model(inputs.cuda()), dim=1)
                loss = contrast(embeddings, 0.1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="in a helper of another file, over the tensor itself",
            others={
                "losses.py": """
                import torch


                def contrast(embeddings, temperature):
                    total = 0
                    for row in embeddings:  # expect: TL219
                        similarity = embeddings @ row / temperature
                        total += torch.logsumexp(similarity, dim=0)
                    return total / embeddings.shape[0]
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Gram(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.features = nn.Conv2d(3, 16, 3)

                def forward(self, images):
                    maps = self.features(images).flatten(2)
                    return torch.stack([torch.mm(maps[b], maps[b].t()) for b in range(maps.size(0))])  # expect: TL219


            loader = DataLoader(torch.load("images.pt"), batch_size=16)
            model = Gram().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for images in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a comprehension in a model's forward, where `torch.bmm` would do",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset


            class JointsLoss(nn.Module):
                def __init__(self, weighted=True):
                    super().__init__()
                    self.criterion = nn.MSELoss()
                    self.weighted = weighted

                def forward(self, output, target, weight):
                    samples, joints = output.shape[:2]
                    predicted = output.reshape(samples, joints, -1).split(1, 1)
                    expected = target.reshape(samples, joints, -1).split(1, 1)
                    loss = 0
                    for joint in range(joints):  # expect: TL219
                        one, other = predicted[joint].squeeze(), expected[joint].squeeze()
                        if self.weighted:
                            loss += self.criterion(one * weight[:, joint], other * weight[:, joint])
                        else:
                            loss += self.criterion(one, other)
                    return loss / joints


            dataset = TensorDataset(torch.load("images.pt"), torch.load("heatmaps.pt"), torch.load("weights.pt"))
            loader = DataLoader(dataset, batch_size=32)
            model = nn.Conv2d(3, 17, 3, padding=1).cuda()
            criterion = JointsLoss().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for images, heatmaps, weights in loader:
                loss = criterion(model(images.cuda()), heatmaps.cuda(), weights.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a tensor that was split into parts of one item, under a setting",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            loader = DataLoader(TensorDataset(torch.load("inputs.pt"), torch.load("masks.pt")), batch_size=8)
            model = nn.Conv2d(3, 21, 3, padding=1).cuda()
            criterion = nn.BCEWithLogitsLoss()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, masks in loader:
                scores = torch.softmax(model(inputs.cuda()), dim=1)
                masks = nn.functional.one_hot(masks.cuda(), 21)
                loss = 0
                for c in range(21):  # expect: TL219
                    loss += criterion(scores[:, c], masks[:, :, :, c])
                for score, mask in zip(scores, masks):  # expect: TL219
                    loss += (score.amax(0) - mask.amax(2)).abs().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="class by class, and two tensors side by side",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = nn.ModuleList([nn.Linear(32, 32) for _ in range(12)])
                    self.scales = nn.Parameter(torch.ones(12))

                def forward(self, x):
                    for layer in self.layers:
                        x = layer(x)
                    for i in range(12):
                        x = x + self.scales[i] * self.layers[i](x)
                    return x


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = Encoder().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                for parameter in model.parameters():
                    parameter.grad.clamp_(-1, 1)
                optimizer.step()
            """,
            because="loops over layers, and over parameters",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Recurrent(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.inner = nn.Linear(32, 32)
                    self.outer = nn.Linear(32, 32)

                def forward(self, x):
                    state = torch.zeros_like(x[:, 0])
                    states = []
                    for t in range(x.size(1)):
                        state = torch.tanh(self.inner(x[:, t]) + self.outer(state))
                        states.append(state)
                    return torch.stack(states, dim=1)


            loader = DataLoader(torch.load("series.pt"), batch_size=64)
            model = Recurrent().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for series in loader:
                loss = model(series.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a recurrence: each turn needs the state that the one before left",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Spiking(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.linear = nn.Linear(32, 32)
                    self.potential = 0

                def forward(self, x):
                    self.potential = 0.9 * self.potential + self.linear(x)
                    return torch.sigmoid(self.potential - 1)


            loader = DataLoader(torch.load("series.pt"), batch_size=64)
            model = Spiking().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for series in loader:
                series = series.cuda()
                spikes = []
                for t in range(series.size(1)):
                    spikes.append(model(series[:, t]))
                loss = torch.stack(spikes).mean()
                model.potential = 0
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the model keeps a state from one call to the next",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            loader = DataLoader(TensorDataset(torch.load("inputs.pt"), torch.load("lengths.pt")), batch_size=64)
            model = nn.Linear(32, 8).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, lengths in loader:
                outputs = model(inputs.cuda())
                outputs = outputs.sigmoid()
                sizes = lengths.tolist()
                losses = []
                for i in range(outputs.size(0)):
                    losses.append(outputs[i, : sizes[i]].square().mean())
                loss = torch.stack(losses).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="items of different sizes",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 8).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                optimizer.zero_grad()
                inputs = inputs.cuda()
                for part in inputs.split(16):
                    loss = model(part).square().mean() / 4
                    loss.backward()
                scores = torch.softmax(model(inputs), dim=1)
                parts = scores.chunk(4)
                regularizer = sum((part * part).sum() for part in parts)
                for c in range(3):
                    regularizer += scores[:, c].square().mean()
                regularizer.backward()
                optimizer.step()
            """,
            because="micro-batches and large parts, and three turns",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset


            @torch.no_grad()
            def evaluate(model, loader):
                scores = []
                for images in loader:
                    outputs = torch.sigmoid(model(images.cuda()))
                    scores += [output.square().mean() for output in outputs]
                return torch.stack(scores).mean()


            model = nn.Linear(32, 10).cuda()
            print(evaluate(model, DataLoader(torch.load("images.pt"), batch_size=64)))
            """,
            because="an evaluation",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 8)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                outputs = torch.sigmoid(model(inputs))
                loss = 0
                for output in outputs:
                    loss += output.square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="on the CPU",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def collate(rows):
                return [row for row in rows]


            loader = DataLoader(torch.load("images.pt"), batch_size=8, collate_fn=collate)
            model = nn.Conv2d(3, 8, 3).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for images in loader:
                features = [model(image.cuda()[None]) for image in images]
                loss = 0
                for feature in features:
                    loss += feature.square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a list of tensors, which need not be of one size",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loop in project.element_loops:
            if _costs_per_step(loop):
                yield self.finding(
                    loop,
                    f"This loop computes {quote(loop.operand)} for the items of {quote(loop.tensor)} one by one,"
                    f" {loop.context.frequency.phrase}",
                    help=AT_ONCE,
                    related=(RelatedSite(loop.work_site, "computed for one item at a time"),),
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, AT_ONCE)


def _costs_per_step(loop: ElementLoop) -> bool:
    context = loop.context
    return context.hot and context.routine and context.may_use_gpu and not context.compiled
