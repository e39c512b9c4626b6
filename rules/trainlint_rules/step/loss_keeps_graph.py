from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, ReplaceExpression
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe import thresholds
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Measurement, Source, Verdict
from trainlint.semantics.project import KeptGraph, Project
from trainlint.semantics.vocabulary import Frequency, GradMode, Region


class LossKeepsGraph(Rule):
    """A loss is collected together with the graph that computed it.

    ## What it does
    Reports `total += loss` and `losses.append(loss)` in a loop over batches, where `loss` still carries autograd's
    graph, the target outlives the step, and no backward pass ever starts from it.

    ## Why it is slow
    Each kept loss holds every node of its step's graph, and what the nodes refer to. Memory grows with each step, the
    batch that fits gets smaller, and freeing the chain at the end takes long.

    ## When it is fine
    Sums that are backpropagated, such as several losses of one step or a loss accumulated over a sequence; losses under
    `no_grad`; numbers already taken out of the graph by `detach()` or `item()`.

    ## Example
    ```python
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += loss
    ```

    ## Use instead
    ```python
        total += loss.detach()
    ```
    The sum stays on the device; read it with `.item()` once, where it is logged.

    ## Fix safety
    Safe: nothing is ever backpropagated through the sum, so cutting it off changes no gradient. `.item()` is not
    offered, since it would make the host wait at every step.

    ## How the probe confirms it
    By the memory that the job has gained per step over the measured steps.

    ## References
    - PyTorch FAQ, "My model reports cuda runtime error(2): out of memory":
      https://docs.pytorch.org/docs/stable/notes/faq.html
    """

    code, name, family = "TL210", "loss-keeps-graph", Family.STEP
    fix_class = Applicability.SAFE
    confirmed_by = "memory slope per step"
    examples = (
        invalid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for epoch in range(3):
                total = 0
                for inputs in loader:
                    loss = model(inputs).pow(2).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    total += loss  # expect: TL210
                print(total / len(loader))
            """,
            because="the sum holds the graph of every step of the epoch",
            fixed="""
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for epoch in range(3):
                total = 0
                for inputs in loader:
                    loss = model(inputs).pow(2).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    total += loss.detach()
                print(total / len(loader))
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn


            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.optimizer = torch.optim.Adam(model.parameters())
                    self.losses = []

                def fit(self, loader):
                    for inputs, targets in loader:
                        loss = nn.functional.cross_entropy(self.model(inputs), targets)
                        self.optimizer.zero_grad()
                        loss.backward()
                        self.optimizer.step()
                        self.losses.append(loss)  # expect: TL210


            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.zeros(64, dtype=torch.long))
            Trainer(nn.Linear(8, 4)).fit(torch.utils.data.DataLoader(dataset, batch_size=8))
            """,
            because="the list lives as long as the trainer",
            fixed="""
            import torch
            from torch import nn


            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.optimizer = torch.optim.Adam(model.parameters())
                    self.losses = []

                def fit(self, loader):
                    for inputs, targets in loader:
                        loss = nn.functional.cross_entropy(self.model(inputs), targets)
                        self.optimizer.zero_grad()
                        loss.backward()
                        self.optimizer.step()
                        self.losses.append(loss.detach())


            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.zeros(64, dtype=torch.long))
            Trainer(nn.Linear(8, 4)).fit(torch.utils.data.DataLoader(dataset, batch_size=8))
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 4)
            model.load_state_dict(torch.load("model.pt"))
            model.eval()
            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.zeros(64, dtype=torch.long))
            loader = torch.utils.data.DataLoader(dataset, batch_size=8)
            total_loss = 0.0
            for inputs, targets in loader:
                loss = nn.functional.cross_entropy(model(inputs), targets)
                total_loss = total_loss + loss  # expect: TL210
            print("loss", total_loss / len(loader))
            """,
            because="eval() does not switch gradients off, so every evaluation graph is kept",
            fixed="""
            import torch
            from torch import nn

            model = nn.Linear(8, 4)
            model.load_state_dict(torch.load("model.pt"))
            model.eval()
            dataset = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.zeros(64, dtype=torch.long))
            loader = torch.utils.data.DataLoader(dataset, batch_size=8)
            total_loss = 0.0
            for inputs, targets in loader:
                loss = nn.functional.cross_entropy(model(inputs), targets)
                total_loss = total_loss + loss.detach()
            print("loss", total_loss / len(loader))
            """,
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.distributions import Categorical

            from environment import make


            class Agent:
                def __init__(self, policy):
                    self.policy = policy
                    self.optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
                    self.log_chances = []
                    self.rewards = []

                def act(self, state):
                    chances = Categorical(self.policy(state.cuda()))
                    action = chances.sample()
                    self.log_chances.append(chances.log_prob(action))
                    return action

                def learn(self):
                    gains = [chance * reward for chance, reward in zip(self.log_chances, self.rewards)]
                    loss = -torch.stack(gains).sum()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.log_chances.clear()
                    self.rewards.clear()


            environment = make()
            agent = Agent(nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=-1)).cuda())
            for episode in range(1000):
                state, done = environment.reset(), False
                while not done:
                    state, reward, done = environment.step(agent.act(state))
                    agent.rewards.append(reward)
                agent.learn()
            """,
            because="the update after an episode runs the backward pass from what its steps have put away",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            for inputs in loader:
                total = 0
                for scale in (1.0, 0.5, 0.25):
                    total += model(inputs * scale).pow(2).mean()
                optimizer.zero_grad()
                total.backward()
                optimizer.step()
            """,
            because="the sum is backpropagated within the step",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
            total, seen = 0.0, []
            for inputs in loader:
                loss = model(inputs).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
                seen.append(loss.detach())
            """,
            because="taken out of the graph first",
        ),
        valid(
            """
            import torch
            from torch import nn


            @torch.no_grad()
            def evaluate(model, loader):
                total = 0
                for inputs in loader:
                    loss = model(inputs).pow(2).mean()
                    total += loss
                return total / len(loader)


            model = nn.Linear(8, 1)
            print(evaluate(model, torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)))
            """,
            because="no graph is recorded under no_grad",
        ),
        valid(
            """
            import torch
            from torch import nn

            cell = nn.RNNCell(8, 8)
            optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(64, 5, 8), batch_size=8)
            for sequence in loader:
                hidden = torch.zeros(sequence.size(0), 8)
                losses = []
                for step in range(sequence.size(1)):
                    hidden = cell(sequence[:, step], hidden)
                    losses.append(hidden.pow(2).mean())
                loss = torch.stack(losses).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the list is summed and backpropagated",
        ),
        valid(
            """
            import torch
            from torch import nn


            class ChunkedLoss(nn.Module):
                def __init__(self, size):
                    super().__init__()
                    self.size = size

                def pieces(self, model, inputs, with_backward=False):
                    losses = []
                    for start in range(0, len(inputs), self.size):
                        loss = model(inputs[start : start + self.size]).pow(2).mean()
                        if with_backward:
                            loss.backward()
                            loss = loss.detach()
                        losses.append(loss)
                    return sum(losses)

                def forward(self, model, inputs):
                    if torch.is_grad_enabled():
                        return self.pieces(model, inputs, with_backward=True)
                    return self.pieces(model, inputs)


            model = nn.Linear(8, 1).cuda()
            criterion = ChunkedLoss(16)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.utils.data.DataLoader(torch.randn(640, 8), batch_size=64):
                optimizer.zero_grad()
                criterion(model, inputs.cuda())
                optimizer.step()
            """,
            because="detached where it is backpropagated here, and left to the caller's backward pass where it is not",
        ),
        valid(
            """
            import torch
            from torch import nn


            def epoch(model, optimizer, groups, report):
                for group in groups:
                    optimizer.zero_grad()
                    outputs = []
                    for inputs in group:
                        output = model(inputs.cuda(non_blocking=True))
                        outputs.append(output)
                        loss = output.square().mean() / len(group)
                        loss.backward()
                    optimizer.step()
                    report(outputs)


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            epoch(model, optimizer, torch.load("groups.pt"), print)
            """,
            because="outputs of one step's micro-batches are dropped when the next step begins",
        ),
        valid(
            """
            import torch
            from torch import nn


            class Stages(nn.Module):
                def __init__(self, sizes):
                    super().__init__()
                    self.sizes = sizes
                    self.layer = nn.Linear(32, 32)
                    self.codes = nn.Parameter(torch.zeros(32))
                    self.code_optimizer = torch.optim.SGD([self.codes], lr=0.1)

                def forward(self, inputs):
                    stages = []
                    for size in self.sizes:
                        hidden = self.layer(inputs)
                        self.code_optimizer.zero_grad()
                        (hidden.detach() - self.codes).square().mean().backward()
                        self.code_optimizer.step()
                        stages.append(hidden)
                    return torch.stack(stages)


            def fit(model, loader, optimizer):
                for inputs in loader:
                    optimizer.zero_grad()
                    model(inputs.cuda()).square().mean().backward()
                    optimizer.step()
            """,
            because="what a forward collects is its result",
        ),
        valid(
            """
            import torch
            from torch import nn


            class Parts(torch.autograd.Function):
                @staticmethod
                def forward(ctx, inputs, weights):
                    ctx.save_for_backward(inputs, weights)
                    sums = []
                    for part in inputs.split(4096):
                        sums.append(part @ weights)
                    return torch.cat(sums)

                @staticmethod
                def backward(ctx, grad):
                    inputs, weights = ctx.saved_tensors
                    return grad @ weights.t(), inputs.t() @ grad


            def epoch(model, weights, optimizer, loader):
                total = 0.0
                for inputs in loader:
                    optimizer.zero_grad()
                    loss = Parts.apply(model(inputs.cuda(non_blocking=True)), weights).mean()
                    loss.backward()
                    optimizer.step()
                    total += loss.detach()
                return total


            model = nn.Linear(32, 8).cuda()
            weights = torch.randn(8, 8, device="cuda", requires_grad=True)
            optimizer = torch.optim.AdamW([*model.parameters(), weights])
            epoch(model, weights, optimizer, torch.load("batches.pt"))
            """,
            because="autograd is off in the forward of a function of its own",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for kept in project.kept_graphs:
            if not kept.backpropagated and _per_batch(kept):
                yield self.finding(
                    kept,
                    f"{quote(kept.text)} keeps the autograd graph of every step alive in {quote(kept.target)}",
                    help="Collect `.detach()` of it, and read the value where it is logged",
                )

    def fix(self, finding: Finding) -> Fix | None:
        kept = finding.subject
        assert isinstance(kept, KeptGraph)
        return Fix(
            Applicability.SAFE,
            "Detach the loss before collecting it",
            (ReplaceExpression(kept.value_site, "{0}.detach()"),),
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        slope = evidence.memory_slope_bytes_per_step
        if slope is None:
            unmeasured = "memory per step was not measured; probe more steps on a GPU"
            return judge_condition(evidence, finding.site, None, unmeasured=unmeasured)
        figure = Measurement("memory gained", slope, "B/step", Source.AGENT, thresholds.MEMORY_GAINED.value)
        # What other code does to the memory says nothing about a line that may not have run.
        grows = slope >= thresholds.MEMORY_GAINED.value if evidence.did_run(finding.site) else None
        unmeasured = "the line is not known to have run in the measured steps"
        return judge_condition(evidence, finding.site, grows, (figure,), unmeasured=unmeasured)


def _per_batch(kept: KeptGraph) -> bool:
    context = kept.context
    return (
        context.frequency >= Frequency.PER_N_STEPS
        and context.region in (Region.TRAINING, Region.EVALUATION)
        and context.grad is not GradMode.DISABLED
    )
