from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, DropImport, Fix, RemoveStatement
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import EnvironmentSetting, Project
from trainlint.semantics.values import Const
from trainlint.semantics.vocabulary import GuardKind

COSTS = {
    "CUDA_LAUNCH_BLOCKING": "makes every kernel launch wait for the GPU",
    "NCCL_P2P_DISABLE": "sends traffic between GPUs through host memory instead of NVLink or PCIe",
    "NCCL_SHM_DISABLE": "sends traffic between processes of one host through the network",
    "NCCL_IB_DISABLE": "sends traffic between hosts through sockets instead of InfiniBand",
    "TORCH_DISTRIBUTED_DEBUG": "checks every collective against all ranks before it starts",
}
"""What each variable does while it is on."""

ON = frozenset({"1", "true", "yes", "on"})
DETAIL = "detail"
"""The one level of TORCH_DISTRIBUTED_DEBUG that costs at each collective."""


class DebugEnv(Rule):
    """The code switches on a debugging aid of CUDA or NCCL for every run.

    ## What it does
    Reports code that sets CUDA_LAUNCH_BLOCKING, NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, NCCL_IB_DISABLE, or
    TORCH_DISTRIBUTED_DEBUG=DETAIL, in a program that trains.

    ## Why it is slow
    Blocking launches take away all overlap between host and GPU. The NCCL switches close the fast paths between GPUs:
    peer access, shared memory, InfiniBand. DETAIL adds a check over all ranks to each collective.

    ## When it is fine
    Behind a debug flag, or set to off; hardware on which a path is broken, where the command line of the one job is the
    place to say so.

    ## Example
    ```python
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
    ```

    ## Use instead
    Set the variable for one run: `CUDA_LAUNCH_BLOCKING=1 python train.py`.

    ## Fix safety
    Unsafe: removing the line restores a path that somebody may have closed because it failed on their machine. With it
    go an import that only it used, and an `if` around it that only looks at values; any other block that is left empty
    gets `pass`.

    ## How the probe confirms it
    By the variable in the environment of the live job.

    ## References
    - NCCL_P2P_DISABLE and NCCL_SHM_DISABLE are special cases, not defaults; NVLink has about 600 GB/s on A100, PCIe
      about 32 GB/s (article 003).
    - NCCL environment variables:
      https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    - PyTorch, CUDA environment variables: https://docs.pytorch.org/docs/stable/cuda_environment_variables.html
    """

    code, name, family = "TL308", "debug-env", Family.DISTRIBUTED
    fix_class = Applicability.UNSAFE
    confirmed_by = "the variable in the live environment"
    examples = (
        invalid(
            """
            import os

            import torch
            from torch import nn

            os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  # expect: TL308
            print("host", os.uname().nodename)
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="left in after debugging",
            fixed="""
            import os

            import torch
            from torch import nn

            print("host", os.uname().nodename)
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import os

            import torch
            from torch import nn


            def setup():
                os.environ.setdefault("NCCL_P2P_DISABLE", "1")  # expect: TL308
                torch.distributed.init_process_group("nccl")
                return int(os.environ["LOCAL_RANK"])


            def main():
                rank = setup()
                model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1).cuda(rank))
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda(rank)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            main()
            """,
            because="peer access is closed on every machine that runs this",
            fixed="""
            import os

            import torch
            from torch import nn


            def setup():
                torch.distributed.init_process_group("nccl")
                return int(os.environ["LOCAL_RANK"])


            def main():
                rank = setup()
                model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1).cuda(rank))
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda(rank)).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            main()
            """,
        ),
        invalid(
            """
            import os


            def configure():
                os.environ["OMP_NUM_THREADS"] = "4"
                os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"  # expect: TL308
            """,
            because="called by the training script of another file",
            entry="environment.py",
            others={
                "train.py": """
                import torch
                from torch import nn

                from environment import configure

                configure()
                torch.distributed.init_process_group("nccl")
                model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1).cuda())
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs.cuda()).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
            fixed="""
            import os


            def configure():
                os.environ["OMP_NUM_THREADS"] = "4"
            """,
        ),
        valid(
            """
            import argparse
            import os

            import torch
            from torch import nn

            parser = argparse.ArgumentParser()
            parser.add_argument("--debug", action="store_true")
            args = parser.parse_args()
            if args.debug:
                os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="behind a debug flag",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn


            def prepare(check=False):
                if check:
                    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
                return nn.Linear(8, 1).cuda()


            model = prepare()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="behind a switch that is off",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn

            os.environ["CUDA_LAUNCH_BLOCKING"] = "0"
            os.environ["TORCH_DISTRIBUTED_DEBUG"] = "INFO"
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="off, and a level that costs next to nothing",
        ),
        valid(
            """
            import os

            import torch
            from torch import nn

            os.environ["NCCL_DEBUG"] = "WARN"
            os.environ["TOKENIZERS_PARALLELISM"] = "false"
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="other variables",
        ),
        valid(
            """
            import os

            os.environ["CUDA_LAUNCH_BLOCKING"] = "1"

            import torch

            state = torch.load("model.pt")
            print({name: tensor.shape for name, tensor in state.items()})
            """,
            because="nothing is trained",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for setting in project.environment:
            context = setting.context
            matters = context.entry.trains and not context.under(GuardKind.NOT_DEVICE)
            if _costs(setting) and matters and not context.on_request:
                yield self.finding(
                    setting,
                    f"{setting.name}={_text(setting)} {COSTS[setting.name]}, in every run of this program",
                    help="Set it on the command line of the run that needs it",
                )

    def fix(self, finding: Finding) -> Fix | None:
        imports = DropImport(finding.site, "os", ""), DropImport(finding.site, "os", "environ")
        return Fix(Applicability.UNSAFE, "Remove the setting", (RemoveStatement(finding.site), *imports))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        name = _variable(finding)
        value = evidence.environment.get(name)
        return judge_condition(
            evidence,
            None,
            None if value is None else _is_on(name, value),
            unmeasured=f"the environment of the job was not read; look for {name} in it",
            note=f"{name} is {value!r} in the job" if value else f"{name} is not set in the job",
        )


def _variable(finding: Finding) -> str:
    """The variable it is about, which starts the message; a finding that was read back has no subject to ask."""
    return finding.message.partition("=")[0]


def _text(setting: EnvironmentSetting) -> str:
    return str(setting.value.value) if isinstance(setting.value, Const) else ""


def _costs(setting: EnvironmentSetting) -> bool:
    return setting.name in COSTS and _is_on(setting.name, _text(setting))


def _is_on(name: str, value: str) -> bool:
    lowered = value.strip().lower()
    return lowered == DETAIL if name == "TORCH_DISTRIBUTED_DEBUG" else lowered in ON
