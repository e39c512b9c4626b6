from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, EnsureImport, Fix, ReplaceExpression, SetArgument
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_condition, judge_share
from trainlint.probe.verdict import Measurement, Source, Verdict
from trainlint.semantics.project import Call, Project

SETTERS = ("torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly")
CONTEXTS = ("torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly")
TRAINER = "pytorch_lightning.Trainer"
OFF = "torch.autograd.set_detect_anomaly(False)"


class DetectAnomaly(Rule):
    """Training runs in autograd's anomaly mode.

    ## What it does
    Reports `set_detect_anomaly(True)`, `detect_anomaly()` and Lightning's `Trainer(detect_anomaly=True)` in code that
    trains, unless a flag switches them on.

    ## Why it is slow
    Anomaly mode records a Python stack for every operation of the forward pass, and checks every gradient of the
    backward pass for NaN, which makes the host wait for the GPU each time.

    ## When it is fine
    Behind a debug flag, or with the mode given by one; in tests; around the one step that is being looked into.

    ## Example
    ```python
    torch.autograd.set_detect_anomaly(True)
    ```

    ## Use instead
    ```python
    torch.autograd.set_detect_anomaly(args.debug)
    ```

    ## Fix safety
    Unsafe: a NaN in a gradient no longer stops the run with an error. The fix switches the mode off where it is set.

    ## How the probe confirms it
    It refutes it where the mode was off in all measured backward passes. Where it was on, the run says so; what it
    costs is not timed, and a run without it tells.

    ## References
    - PyTorch, Anomaly detection, "should be enabled only for debugging":
      https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection
    - PyTorch performance tuning guide, "Disable debugging APIs":
      https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code, name, family = "TL407", "detect-anomaly", Family.COMPUTE
    fix_class = Applicability.UNSAFE
    confirmed_by = "time share"
    examples = (
        invalid(
            """
            import torch
            from torch import nn

            torch.autograd.set_detect_anomaly(True)  # expect: TL407
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="on for the whole run",
            fixed="""
            import torch
            from torch import nn

            torch.autograd.set_detect_anomaly(False)
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                with torch.autograd.detect_anomaly():  # expect: TL407
                    loss = model(inputs).mean()
                    optimizer.zero_grad()
                    loss.backward()
                optimizer.step()
            """,
            because="around each step",
            fixed="""
            import torch
            from torch import nn

            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                with torch.autograd.set_detect_anomaly(False):
                    loss = model(inputs).mean()
                    optimizer.zero_grad()
                    loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            from torch import autograd


            def prepare():
                autograd.set_detect_anomaly(mode=True)  # expect: TL407
            """,
            because="called by the training script of another file",
            entry="setup.py",
            others={
                "train.py": """
                import torch
                from torch import nn

                from setup import prepare

                prepare()
                model = nn.Linear(8, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for inputs in torch.randn(64, 8, 8):
                    loss = model(inputs).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                """
            },
            fixed="""
            from torch import autograd


            def prepare():
                autograd.set_detect_anomaly(mode=False)
            """,
        ),
        invalid(
            """
            import lightning as L
            import torch
            from torch import nn


            class Model(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(8, 1)

                def training_step(self, batch, batch_idx):
                    return self.layer(batch).mean()

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            trainer = L.Trainer(max_epochs=3, detect_anomaly=True)  # expect: TL407
            trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8))
            """,
            because="Lightning switches the mode on",
        ),
        valid(
            """
            import argparse

            import torch
            from torch import nn

            parser = argparse.ArgumentParser()
            parser.add_argument("--debug", action="store_true")
            args = parser.parse_args()
            if args.debug:
                torch.autograd.set_detect_anomaly(True)
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="behind a debug flag",
        ),
        valid(
            """
            import torch
            from torch import nn


            def prepare(check=False):
                if check:
                    torch.autograd.set_detect_anomaly(True)
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
            import argparse

            import torch
            from torch import nn

            parser = argparse.ArgumentParser()
            parser.add_argument("--anomaly", action="store_true")
            args = parser.parse_args()
            torch.autograd.set_detect_anomaly(args.anomaly)
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the mode is an option",
        ),
        valid(
            """
            import torch
            from torch import nn

            torch.autograd.set_detect_anomaly(False)
            model = nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.randn(64, 8, 8):
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="switched off",
        ),
        valid(
            """
            import torch

            inputs = torch.randn(8, requires_grad=True)
            with torch.autograd.detect_anomaly():
                inputs.pow(2).sum().backward()
            print(inputs.grad)
            """,
            because="a single backward pass, no training",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls_of(*SETTERS, *CONTEXTS, TRAINER):
            if _switches_on(call) and call.context.concerns_training and not call.context.on_request:
                yield self.finding(
                    call,
                    f"{quote(call.text)} records a stack for every operation and checks every gradient for NaN",
                    help="Switch anomaly mode on by a debug flag only",
                )

    def fix(self, finding: Finding) -> Fix | None:
        call = finding.subject
        assert isinstance(call, Call)
        if call.name in SETTERS:
            recipe = SetArgument(call.site, "mode", "False", position=0)
            return Fix(Applicability.UNSAFE, "Switch anomaly mode off", (recipe,))
        if call.name == TRAINER:
            recipe = SetArgument(call.site, "detect_anomaly", "False")
            return Fix(Applicability.UNSAFE, "Switch anomaly mode off", (recipe,))
        recipes = (ReplaceExpression(call.site, OFF), EnsureImport(call.site, "torch"))
        return Fix(Applicability.UNSAFE, "Switch anomaly mode off", recipes)

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        passes = evidence.anomaly_passes_share
        if evidence.anomaly_mode_share is None and passes is not None:
            figure = Measurement("backward passes with anomaly mode on", passes, "share", Source.AGENT)
            unmeasured = "anomaly mode was on, and what it costs is not timed; compare with a run without it: --compare"
            return judge_condition(evidence, None, False if passes == 0 else None, (figure,), unmeasured=unmeasured)
        return judge_share(
            evidence,
            None,
            evidence.anomaly_mode_share,
            metric="anomaly mode",
            source=Source.STACKS,
            unmeasured="no backward pass of the measured steps says whether anomaly mode was on; probe with the agent",
        )


def _switches_on(call: Call) -> bool:
    switch = "detect_anomaly" if call.name == TRAINER else "mode"
    return call.name in CONTEXTS or call.arguments.constant(switch) is True
