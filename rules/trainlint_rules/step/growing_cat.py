from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_stacks
from trainlint.probe.verdict import Status, Verdict
from trainlint.semantics.project import Concatenation, Project
from trainlint.semantics.vocabulary import Frequency, Region

FEW_TURNS = 16
"""Turns of a loop up to which joining again at each of them costs about as much as joining once."""


class GrowingCat(Rule):
    """What a loop collects is copied anew at every step.

    ## What it does
    Reports `rows = torch.cat([rows, new])`, and `hstack`, `vstack` and kin, in a loop over batches that does nothing
    else with `rows`.

    ## Why it is slow
    A concatenation makes a new tensor and copies all of both into it. The hundredth batch copies the ninety-nine before
    it once more: what is copied over an epoch grows with the square of its length, and for the time of a copy memory
    holds everything twice. On a GPU each of them asks the allocator for a block that is larger than all it has free.

    ## When it is fine
    Where each step uses what was joined so far: a queue of keys, a sequence that is generated token by token, the dense
    connections of a network. For a handful of turns. For a few rows of numbers it costs little.

    ## Example
    ```python
    outputs = torch.empty(0)
    for inputs in loader:
        outputs = torch.cat([outputs, model(inputs)])
    ```

    ## Use instead
    ```python
    collected = []
    for inputs in loader:
        collected.append(model(inputs))
    outputs = torch.cat(collected)
    ```
    In training, collect `.detach()` of it.

    ## Fix safety
    Display: the list has to be joined wherever the loop may be left, and what else stands for "nothing yet" has to go.

    ## How the probe confirms it
    By stack samples under this line. They are never enough to clear it: what is copied grows with each step, and a
    probe sees the first ones; on a GPU the host does not wait for the copy.

    ## References
    - PyTorch, torch.cat, "Concatenates the given sequence of tensors", into a new one:
      https://docs.pytorch.org/docs/stable/generated/torch.cat.html
    """

    code, name, family = "TL218", "growing-cat", Family.STEP
    fix_class = Applicability.DISPLAY
    confirmed_by = "stack samples under this line"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(10):
                losses = torch.empty(0, device="cuda")
                for inputs in loader:
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    losses = torch.cat([losses, loss.detach().view(1)])  # expect: TL218
                print(epoch, losses.mean().item())
            """,
            because="the losses of an epoch, joined again at each step",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            @torch.no_grad()
            def evaluate(model, loader):
                outputs, labels = None, torch.tensor([])
                for images, targets in loader:
                    predicted = model(images.cuda())
                    if outputs is None:
                        outputs = predicted
                    else:
                        outputs = torch.cat((outputs, predicted), dim=0)  # expect: TL218
                    labels = torch.cat((labels, targets))  # expect: TL218
                return (outputs.argmax(1).cpu() == labels).float().mean()


            model = nn.Linear(32, 10).cuda()
            dataset = torch.utils.data.TensorDataset(torch.load("images.pt"), torch.load("labels.pt"))
            print(evaluate(model, DataLoader(dataset, batch_size=64)))
            """,
            because="predictions of an evaluation; asking whether it is the first batch is no use of them",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from features import extract

            dataset = torch.utils.data.TensorDataset(torch.load("images.pt"))
            print(extract(nn.Linear(32, 8).cuda(), DataLoader(dataset, batch_size=64)).shape)
            """,
            because="a loader of another file is walked through",
            others={
                "features.py": """
                import torch


                def extract(model, loader):
                    features = torch.empty(0, 8)
                    with torch.inference_mode():
                        for (images,) in loader:
                            features = torch.vstack([features, model(images.cuda()).cpu()])  # expect: TL218
                    return features
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            history = torch.tensor([])
            for step, inputs in enumerate(loader):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                history = torch.cat(tensors=[history, loss.detach().cpu().view(1)], dim=0)  # expect: TL218
                if step % 100 == 0:
                    print(step)
            torch.save(history, "history.pt")
            """,
            because="a history on the host is copied all the same",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            losses = []
            for inputs in loader:
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
            losses = torch.stack(losses)
            """,
            because="collected in a list, joined once",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 16).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            queue = torch.randn(4096, 16, device="cuda")
            for inputs in loader:
                keys = model(inputs.cuda())
                loss = (keys @ queue.T).logsumexp(1).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                queue = torch.cat([queue, keys.detach()])[-4096:]
            """,
            because="a bounded queue",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 16).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            memory = torch.zeros(1, 16, device="cuda")
            for inputs in loader:
                keys = model(inputs.cuda())
                loss = (keys @ memory.T).logsumexp(1).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                memory = torch.cat([memory, keys.detach()])
                if len(memory) > 4096:
                    memory = memory[-4096:]
            """,
            because="the queue is used by each step, and cut",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Dense(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = nn.ModuleList([nn.Linear(32 * (i + 1), 32) for i in range(4)])

                def forward(self, inputs):
                    for layer in self.layers:
                        inputs = torch.cat([inputs, layer(inputs)], 1)
                    return inputs.mean()


            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = Dense().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for batch in loader:
                loss = model(batch.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="dense connections: each layer reads what was joined",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            @torch.no_grad()
            def generate(model, prompts):
                for prompt in prompts:
                    tokens = prompt.cuda()
                    for _ in range(100):
                        logits = model(tokens.float())
                        tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], dim=1)
                    print(tokens)


            generate(nn.LazyLinear(100).cuda(), DataLoader(torch.load("prompts.pt"), batch_size=1))
            """,
            because="each token is generated from the ones before it",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            loader = DataLoader(torch.load("inputs.pt"), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            samples = torch.empty(0, 1, device="cuda")
            for step, inputs in enumerate(loader):
                outputs = model(inputs.cuda())
                optimizer.zero_grad()
                outputs.square().mean().backward()
                optimizer.step()
                if step % 500 == 0:
                    samples = torch.cat([samples, outputs.detach()[:8]])
            """,
            because="every 500 steps",
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
                inputs = torch.cat([inputs, inputs.flip(0)])
                parts = inputs[:, :1]
                for width in (8, 16, 32):
                    parts = torch.cat([parts, inputs[:, :width]], dim=1)
                loss = model(parts[:, :32].cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="joined within the step, and a handful of turns",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for joined in project.concatenations:
            if _per_batch(joined) and not _few(joined):
                yield self.finding(
                    joined,
                    f"{quote(joined.text)} copies all of {quote(joined.target)} {joined.context.phrase}",
                    help="Collect in a list, and concatenate once after the loop",
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, "Append to a list, and concatenate it once after the loop")

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        verdict = judge_stacks(evidence, finding.site)
        if verdict.status is Status.REFUTED:
            note = "cheap so far, but what is copied grows with each step; probe more steps"
            return replace(verdict, status=Status.INCONCLUSIVE, note=note)
        return verdict


def _per_batch(joined: Concatenation) -> bool:
    """Whether it stands in the body of a loop over batches itself, at every turn."""
    context = joined.context
    loops = context.region in (Region.TRAINING, Region.EVALUATION) and context.loop == joined.loop
    return loops and context.frequency >= Frequency.PER_STEP and context.routine


def _few(joined: Concatenation) -> bool:
    return joined.ends_early or (joined.turns is not None and joined.turns <= FEW_TURNS)
