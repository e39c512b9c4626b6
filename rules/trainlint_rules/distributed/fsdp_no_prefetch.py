from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import CONFIRMED_SHARE, judge_condition
from trainlint.probe.verdict import Measurement, Source, Verdict
from trainlint.semantics.project import Arguments, Call, Project, Wrapping
from trainlint.semantics.values import NONE, Const, Reference

FULLY_SHARDED = "torch.distributed.fsdp.FullyShardedDataParallel"
PLUGINS = ("accelerate.FullyShardedDataParallelPlugin", "accelerate.utils.FullyShardedDataParallelPlugin")
STRATEGIES = tuple(
    f"{package}.strategies.FSDPStrategy" for package in ("pytorch_lightning", "lightning.fabric", "lightning")
)
"""What passes settings on to FSDP: Accelerate's plugins and Lightning's strategies."""
GATHERING = ("FULL_SHARD", "HYBRID_SHARD")
"""Strategies that gather parameters in the backward pass again."""


class FsdpNoPrefetch(Rule):
    """FSDP gathers parameters in the backward pass only when they are needed, and the GPU waits for them.

    ## What it does
    Reports FSDP with `backward_prefetch=None`, also by Lightning's FSDPStrategy and by Accelerate's plugin
    (`"NO_PREFETCH"`), where the model is wrapped in several units.

    ## Why it is slow
    In the backward pass each unit's parameters are gathered anew. With prefetching, the next unit's all-gather runs
    while the gradients of the present one are computed; without, the two take turns, and nothing hides the
    communication.

    ## When it is fine
    Where memory is so short that not one more unit's parameters fit: the rule is silent if parameters are offloaded to
    the CPU as well. Strategies that keep parameters gathered (`SHARD_GRAD_OP`, `NO_SHARD`); a model that is one unit.

    ## Example
    ```python
    model = FullyShardedDataParallel(model, auto_wrap_policy=policy, backward_prefetch=None)
    ```

    ## Use instead
    ```python
    model = FullyShardedDataParallel(model, auto_wrap_policy=policy)
    ```
    which means `BackwardPrefetch.BACKWARD_PRE`. `BACKWARD_POST` overlaps less and needs less memory.

    ## Fix safety
    Advice without an edit: at its peak, memory holds the parameters of one more unit.

    ## How the probe confirms it
    Communication that something else hides, or that takes next to no time, clears it. What is exposed is not told apart
    by kind, so more of it leaves the finding open: measure again with prefetching.

    ## References
    - `forward_prefetch` and `backward_prefetch` decide whether gathers overlap (article 000).
    - PyTorch, FullyShardedDataParallel, `backward_prefetch`: None disables it, which is not recommended, since it may
      degrade throughput significantly: https://docs.pytorch.org/docs/stable/fsdp.html
    """

    code, name, family = "TL313", "fsdp-no-prefetch", Family.DISTRIBUTED
    severity = Severity.INFO
    default = False
    fix_class = Applicability.DISPLAY
    confirmed_by = "nothing yet; little exposed communication clears it"
    examples = (
        invalid(
            """
            import functools

            import torch
            from torch import nn
            from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, ShardingStrategy
            from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(torch.distributed.get_rank())
            policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1_000_000)
            net = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).cuda()
            model = FullyShardedDataParallel(net, auto_wrap_policy=policy, backward_prefetch=None)  # expect: TL313
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 2048):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="prefetching switched off",
        ),
        invalid(
            """
            import functools

            import torch
            from torch import nn
            from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, ShardingStrategy
            from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(torch.distributed.get_rank())
            policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1_000_000)
            net = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).cuda()
            model = FullyShardedDataParallel(  # expect: TL313
                net, None, ShardingStrategy.FULL_SHARD, None, policy, None, device_id=torch.cuda.current_device()
            )
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 2048):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="likewise, by position",
        ),
        invalid(
            """
            from torch.distributed.fsdp import FullyShardedDataParallel


            def shard(model, policy, prefetch=None):
                return FullyShardedDataParallel(  # expect: TL313
                    model, auto_wrap_policy=policy, backward_prefetch=prefetch
                )
            """,
            because="a helper's default in another file",
            entry="sharding.py",
            others={
                "train.py": """
                import functools

                import torch
                from torch import nn
                from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

                from sharding import shard

                torch.distributed.init_process_group("nccl")
                torch.cuda.set_device(torch.distributed.get_rank())
                policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1_000_000)
                model = shard(nn.Sequential(nn.Linear(2048, 2048), nn.Linear(2048, 2048)).cuda(), policy)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in torch.randn(64, 8, 2048):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
        ),
        invalid(
            """
            import torch
            from accelerate import Accelerator, FullyShardedDataParallelPlugin
            from torch import nn

            plugin = FullyShardedDataParallelPlugin(backward_prefetch="NO_PREFETCH")  # expect: TL313
            accelerator = Accelerator(fsdp_plugin=plugin)
            model = nn.Sequential(nn.Linear(2048, 2048), nn.Linear(2048, 2048))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = accelerator.prepare(model, optimizer)
            for inputs in torch.randn(64, 8, 2048):
                accelerator.backward(model(inputs.to(accelerator.device)).mean())
                optimizer.step()
                optimizer.zero_grad()
            """,
            because="by Accelerate's word for it",
        ),
        invalid(
            """
            import torch
            from lightning.pytorch import LightningModule, Trainer
            from lightning.pytorch.strategies import FSDPStrategy
            from torch import nn
            from torch.utils.data import DataLoader


            class Net(LightningModule):
                def __init__(self):
                    super().__init__()
                    self.layers = nn.Sequential(nn.Linear(2048, 2048), nn.Linear(2048, 2048))

                def training_step(self, batch, batch_idx):
                    return self.layers(batch).mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            strategy = FSDPStrategy(auto_wrap_policy={nn.Linear}, backward_prefetch=None)  # expect: TL313
            Trainer(devices=8, strategy=strategy).fit(Net(), DataLoader(torch.randn(64, 2048), batch_size=8))
            """,
            because="passed on by Lightning",
        ),
        valid(
            """
            import functools

            import torch
            from torch import nn
            from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, ShardingStrategy
            from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(torch.distributed.get_rank())
            policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1_000_000)
            net = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).cuda()
            model = FullyShardedDataParallel(
                net, auto_wrap_policy=policy
            )
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 2048):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="on by default",
        ),
        valid(
            """
            import functools

            import torch
            from torch import nn
            from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, ShardingStrategy
            from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(torch.distributed.get_rank())
            policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1_000_000)
            net = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).cuda()
            model = FullyShardedDataParallel(
                net, auto_wrap_policy=policy, backward_prefetch=BackwardPrefetch.BACKWARD_PRE
            )
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 2048):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="switched on",
        ),
        valid(
            """
            import functools

            import torch
            from torch import nn
            from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, ShardingStrategy
            from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(torch.distributed.get_rank())
            policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1_000_000)
            net = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).cuda()
            model = FullyShardedDataParallel(
                net, auto_wrap_policy=policy, backward_prefetch=BackwardPrefetch.BACKWARD_POST
            )
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 2048):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a little less overlap, for less memory",
        ),
        valid(
            """
            import functools

            import torch
            from torch import nn
            from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, ShardingStrategy
            from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(torch.distributed.get_rank())
            policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1_000_000)
            net = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).cuda()
            model = FullyShardedDataParallel(
                net, auto_wrap_policy=policy, backward_prefetch=None, cpu_offload=CPUOffload(offload_params=True)
            )
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 2048):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a set-up bound by memory: what does not fit is offloaded",
        ),
        valid(
            """
            import functools

            import torch
            from torch import nn
            from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, ShardingStrategy
            from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(torch.distributed.get_rank())
            policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1_000_000)
            net = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).cuda()
            model = FullyShardedDataParallel(
                net, auto_wrap_policy=policy, backward_prefetch=None, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP
            )
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 2048):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="parameters stay gathered for the backward pass",
        ),
        valid(
            """
            import functools

            import torch
            from torch import nn
            from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, ShardingStrategy
            from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(torch.distributed.get_rank())
            policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1_000_000)
            net = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).cuda()
            model = FullyShardedDataParallel(
                net, backward_prefetch=None
            )
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 2048):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="one unit has no next one to fetch",
        ),
        valid(
            """
            import argparse
            import functools

            import torch
            from torch import nn
            from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, ShardingStrategy
            from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

            torch.distributed.init_process_group("nccl")
            torch.cuda.set_device(torch.distributed.get_rank())
            policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1_000_000)
            net = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).cuda()
            parser = argparse.ArgumentParser()
            parser.add_argument("--prefetch", default=None)
            args = parser.parse_args()
            choices = {"pre": BackwardPrefetch.BACKWARD_PRE, "post": BackwardPrefetch.BACKWARD_POST}
            model = FullyShardedDataParallel(
                net, auto_wrap_policy=policy, backward_prefetch=choices.get(args.prefetch)
            )
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 2048):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="whoever starts the job decides",
        ),
        valid(
            """
            import torch
            from accelerate import Accelerator, FullyShardedDataParallelPlugin
            from torch import nn

            plugin = FullyShardedDataParallelPlugin(fsdp_version=2, backward_prefetch="NO_PREFETCH")
            accelerator = Accelerator(fsdp_plugin=plugin)
            model = nn.Sequential(nn.Linear(2048, 2048), nn.Linear(2048, 2048))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = accelerator.prepare(model, optimizer)
            for inputs in torch.randn(64, 8, 2048):
                accelerator.backward(model(inputs.to(accelerator.device)).mean())
                optimizer.step()
                optimizer.zero_grad()
            """,
            because="the second version of FSDP prefetches by itself",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for wrapping in project.wrappings:
            in_units = wrapping.arguments.given("auto_wrap_policy")
            if wrapping.library == FULLY_SHARDED and wrapping.trains and in_units and _is_off(wrapping.arguments):
                yield self._report(wrapping)
        for call in project.calls_of(*PLUGINS, *STRATEGIES):
            second = call.arguments.given("fsdp_version") and call.arguments.constant("fsdp_version") != 1
            if call.context.entry.trains and not second and _is_off(call.arguments):
                yield self._report(call)

    def _report(self, subject: Wrapping | Call) -> Finding:
        return self.finding(
            subject,
            f"{quote(subject.text)} lets the backward pass wait for each unit's parameters to be gathered",
            help="Drop backward_prefetch=None, if the memory allows for one more unit's parameters",
        )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, "Use BackwardPrefetch.BACKWARD_PRE, the default of FSDP")

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        share = evidence.shares.get("communication_exposed")
        if share is None:
            unmeasured = "communication was not traced; probe on several GPUs"
            return judge_condition(evidence, None, None, unmeasured=unmeasured)
        figure = Measurement("exposed communication", share, "share", Source.KINETO, CONFIRMED_SHARE)
        unmeasured = (
            "what part of the exposed communication gathers parameters is not measured; try it with prefetching"
        )
        return judge_condition(
            evidence, None, False if share < CONFIRMED_SHARE else None, (figure,), unmeasured=unmeasured
        )


def _is_off(arguments: Arguments) -> bool:
    """Whether prefetching is switched off in a set-up that would gain from it."""
    prefetch = arguments.value("backward_prefetch")
    off = prefetch == NONE or (isinstance(prefetch, Const) and str(prefetch.value).upper() == "NO_PREFETCH")
    return off and _gathers_again(arguments) and not _offloads(arguments)


def _gathers_again(arguments: Arguments) -> bool:
    strategy = arguments.value("sharding_strategy")
    if strategy is None or strategy == NONE:
        return arguments.absent("sharding_strategy") or strategy == NONE
    name = strategy.name.rpartition(".")[2] if isinstance(strategy, Reference) else ""
    if isinstance(strategy, Const):
        name = str(strategy.value).upper()
    return name in GATHERING


def _offloads(arguments: Arguments) -> bool:
    """Whether parameters are, or may be, kept on the CPU."""
    offload = arguments.value("cpu_offload")
    return not (arguments.absent("cpu_offload") or offload == NONE or offload == Const(False))
