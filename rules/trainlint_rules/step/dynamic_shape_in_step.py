from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_syncs
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import DynamicShape, Project
from trainlint.semantics.vocabulary import Confidence

KEEP_SHAPE = "Keep the shape: `torch.where` with three arguments, `masked_fill`, zero weights, or an output size"


class DynamicShapeInStep(Rule):
    """A result at every training step has as many items as the values of a GPU tensor decide.

    ## What it does
    Reports, per training step and on the GPU: `nonzero`, `argwhere`, `masked_select`, `unique`, `torch.where` with a
    condition alone, `x[mask]` that is read, and `repeat_interleave` with a tensor of counts but no `output_size`.

    ## Why it is slow
    The host cannot allocate the result before it knows how many items there are, and that the GPU finds out. So it
    waits for all work before, as `.item()` would, and the GPU idles until the next kernels are queued. A compiled
    model breaks its graph there, or compiles again for other sizes.

    ## When it is fine
    Where few items out of many are left, what is saved may be worth more than the wait: sparse losses, detection. That
    is why the rule is not in the default set. In an evaluation; on the CPU; where nothing is read, as in
    `x[mask] = 0`.

    ## Example
    ```python
    kept = losses[labels != -100]
    loss = kept.mean()
    ```

    ## Use instead
    ```python
    kept = labels != -100
    loss = (losses * kept).sum() / kept.sum()
    ```

    ## Fix safety
    Display: the result has another shape, and all that follows has to fit it.

    ## How the probe confirms it
    By the host's waits for the device at this line, from a GPU trace.

    ## References
    - PyTorch, torch.nonzero and torch.argwhere, which on CUDA cause host-device synchronization:
      https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html
    - PyTorch, torch.repeat_interleave, whose `output_size` avoids a stream synchronization:
      https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html
    - Many short stalls in the step come from scattered host syncs (article 000).
    """

    code, name, family = "TL215", "dynamic-shape-in-step", Family.STEP
    severity = Severity.INFO
    fix_class = Applicability.DISPLAY
    default = False
    confirmed_by = "sync stacks on this line"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            dataset = torch.utils.data.TensorDataset(torch.load("inputs.pt"), torch.load("labels.pt"))
            loader = DataLoader(dataset, batch_size=64)
            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, labels in loader:
                labels = labels.cuda()
                losses = nn.functional.cross_entropy(model(inputs.cuda()), labels, reduction="none")
                loss = losses[labels != -100].mean()  # expect: TL215
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a masked read",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from sampling import positives

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                scores = model(inputs.cuda())
                loss = scores.flatten().index_select(0, positives(scores)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="in a helper of another file",
            others={
                "sampling.py": """
                def positives(scores):
                    return (scores.flatten() > 0.5).nonzero().squeeze(1)  # expect: TL215
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Routed(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.gate = nn.Linear(32, 4)
                    self.experts = nn.ModuleList([nn.Linear(32, 32) for _ in range(4)])

                def forward(self, tokens):
                    chosen = self.gate(tokens).argmax(1)
                    result = torch.zeros_like(tokens)
                    for index, expert in enumerate(self.experts):
                        rows = torch.nonzero(chosen == index).squeeze(1)  # expect: TL215
                        result.index_copy_(0, rows, expert(tokens.index_select(0, rows)))
                    return result


            loader = DataLoader(torch.load("tokens.pt"), batch_size=64)
            model = Routed().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for tokens in loader:
                loss = model(tokens.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                torch.unique(tokens)
            """,
            because="one wait for each expert; the batch on the host costs none",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            dataset = torch.utils.data.TensorDataset(torch.load("inputs.pt"), torch.load("lengths.pt"))
            loader = DataLoader(dataset, batch_size=64)
            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, lengths in loader:
                outputs = model(inputs.cuda())
                repeated = outputs.repeat_interleave(lengths.cuda(), dim=0)  # expect: TL215
                seen = torch.unique(lengths.cuda())  # expect: TL215
                rows, columns = torch.where(outputs > 0)  # expect: TL215
                loss = torch.masked_select(repeated, repeated > 0).mean() + seen.sum()  # expect: TL215
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="counts decide the size, or values do",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            dataset = torch.utils.data.TensorDataset(torch.load("inputs.pt"), torch.load("labels.pt"))
            loader = DataLoader(dataset, batch_size=64)
            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, labels in loader:
                labels = labels.cuda()
                outputs = model(inputs.cuda())
                kept = labels != -100
                outputs = torch.where(kept.unsqueeze(1), outputs, torch.zeros_like(outputs))
                outputs = outputs.masked_fill(outputs.isnan(), 0.0)
                labels[labels < 0] = 0
                losses = nn.functional.cross_entropy(outputs, labels, reduction="none")
                loss = (losses * kept).sum() / kept.sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="shapes stay as they are; a masked write reads nothing",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            dataset = torch.utils.data.TensorDataset(torch.load("inputs.pt"), torch.load("lengths.pt"))
            loader = DataLoader(dataset, batch_size=64)
            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, lengths in loader:
                outputs = model(inputs.cuda())
                repeated = outputs.repeat_interleave(lengths.cuda(), dim=0, output_size=4096)
                doubled = repeated.repeat_interleave(2, dim=0)
                loss = doubled.square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the size is given",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            dataset = torch.utils.data.TensorDataset(torch.load("inputs.pt"), torch.load("labels.pt"))
            loader = DataLoader(dataset, batch_size=64)
            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, labels in loader:
                inputs = inputs[labels != -100]
                present = labels.unique()
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the batch has not left the host",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            @torch.no_grad()
            def evaluate(model, loader):
                hits = []
                for images, labels in loader:
                    outputs, labels = model(images.cuda()).argmax(1), labels.cuda()
                    hits.append((outputs[labels >= 0] == labels[labels >= 0]).float().mean())
                return torch.stack(hits).mean()


            model = nn.Linear(32, 10).cuda()
            dataset = torch.utils.data.TensorDataset(torch.load("images.pt"), torch.load("labels.pt"))
            print(evaluate(model, DataLoader(dataset, batch_size=64)))
            """,
            because="an evaluation",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 10).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            order = torch.randperm(64, device="cuda")
            for step, inputs in enumerate(loader):
                outputs = model(inputs.cuda())
                outputs = outputs[order]
                best = outputs[:, outputs.argmax(1)]
                loss = best.square().mean() + outputs[0].mean() + outputs[:, 1:3].mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 500 == 0:
                    print(outputs[outputs > 0].mean().item())
            """,
            because="indices, slices and numbers decide no shape; a masked read every 500 steps",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 10)
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in loader:
                outputs = model(inputs)
                loss = outputs[outputs > 0].mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="on the CPU",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for shape in project.dynamic_shapes:
            if _waits_per_step(shape):
                yield self.finding(
                    shape,
                    f"{quote(shape.text)} has a size that the host waits for {shape.context.frequency.phrase}",
                    help=KEEP_SHAPE,
                    confidence=Confidence.HIGH if shape.value.proved else Confidence.MEDIUM,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, KEEP_SHAPE)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_syncs(evidence, finding.site)


def _waits_per_step(shape: DynamicShape) -> bool:
    return shape.context.hot and shape.context.routine and shape.context.may_use_gpu
