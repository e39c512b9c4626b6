"""Write the file of a new rule, with all its parts in place and working.

    python -m trainlint.lint.scaffold --code TL150 --name my-rule --family data
    python -m trainlint.lint.scaffold --code ACME001 --name my-rule --family step --package src/acme_trainlint

What it writes is a rule that runs, on a subject that stands in for yours: replace the parts one by one.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template

from trainlint.lint.finding import Family
from trainlint.lint.packs import BUILT_IN, installed_packs
from trainlint.lint.registry import Registry, load_registry

OWN_PREFIX = "TL"
"""Prefix of the codes of the built-in pack."""
FAMILIES = tuple(family.value for family in Family if family not in (Family.TOOL, Family.RUNTIME))

_CODE = re.compile(r"[A-Z]{2,4}\d{3}")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_RULE = Template('''\
from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, RemoveStatement
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_calls
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project
from trainlint.semantics.vocabulary import GuardKind


class $class_name(Rule):
    """The host waits for all work of the GPU at every step.

    ## What it does
    Reports `torch.cuda.synchronize()` in code that runs at every training step.

    ## Why it is slow
    The host stops until the GPU is idle, so it cannot launch the next kernels in time.

    ## When it is fine
    Behind an interval guard, to take the time of a step now and then.

    ## Example
    ```python
    for inputs in loader:
        loss = model(inputs).mean()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
    ```

    ## Use instead
    ```python
    for inputs in loader:
        loss = model(inputs).mean()
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    Unsafe: what takes the time of a step, or shares memory with other streams, may rely on the wait.

    ## How the probe confirms it
    By the time spent in the call.

    ## References
    - PyTorch, torch.cuda.synchronize: https://docs.pytorch.org/docs/stable/generated/torch.cuda.synchronize.html
    """

    code, name, family = "$code", "$name", Family.$family
    severity = Severity.WARNING
    fix_class = Applicability.UNSAFE
    default = True
    confirmed_by = "time in the call"
    examples = (
        invalid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                torch.cuda.synchronize()  # expect: $code
            """,
            because="waits at every step",
            fixed="""
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn


            def finish_step(optimizer):
                optimizer.step()
                torch.cuda.synchronize()  # expect: $code


            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                finish_step(optimizer)
            """,
            because="in a helper that every step calls",
        ),
        invalid(
            """
            import sys

            import torch
            from torch import nn

            wait = "--wait" in sys.argv
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if wait:
                    torch.cuda.synchronize()  # expect: $code
            """,
            because="a switch does not thin out",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            torch.cuda.synchronize()
            """,
            because="once, after the loop",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step, inputs in enumerate(torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 100 == 0:
                    torch.cuda.synchronize()
            """,
            because="behind an interval guard",
        ),
        valid(
            """
            import sys

            import torch
            from torch import nn

            debug = "--debug" in sys.argv
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
                loss = model(inputs.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if debug:
                    torch.cuda.synchronize()
            """,
            because="for debugging only",
        ),
        valid(
            """
            import torch
            from torch import nn

            model = nn.Linear(8, 1).cuda()
            with torch.no_grad():
                for inputs in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
                    model(inputs.cuda())
                    torch.cuda.synchronize()
            """,
            because="evaluation",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls_of("torch.cuda.synchronize"):
            if call.context.hot and not call.context.under(GuardKind.INTERVAL, GuardKind.DEBUG):
                yield self.finding(
                    call,
                    f"{quote(call.text)} makes the host wait for all work of the GPU at every step",
                    help="Remove it, or wait at an interval only",
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.UNSAFE, "Remove the call", (RemoveStatement(finding.site),))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_calls(evidence, finding.site)
''')


class CannotScaffoldError(Exception):
    """What was asked for cannot be written; the message says why and what to do."""


def write_rule(code: str, name: str, family: Family, package: Path | None = None) -> Path:
    """Write the file of a new rule and return its path.

    `package` is the folder of another pack's import package; it is created where it does not exist. Without it the rule
    joins the built-in pack of the checkout that runs.

    Raises:
        CannotScaffoldError: the code or name is malformed or taken, the file exists, or there is no checkout.
    """
    _require_free(code, name, load_registry(), built_in=package is None)
    folder = _own_folder() / family.value if package is None else package
    path = folder / f"{name.replace('-', '_')}.py"
    if path.exists():
        raise CannotScaffoldError(f"{path} exists already; choose another name or edit that file")
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "__init__.py").exists():
        (folder / "__init__.py").write_text('"""Rules for trainlint, one file a rule."""\n', encoding="utf-8")
    class_name = "".join(word.capitalize() for word in name.split("-"))
    text = _RULE.substitute(class_name=class_name, code=code, name=name, family=family.name)
    path.write_text(text, encoding="utf-8")
    return path


def _require_free(code: str, name: str, registry: Registry, built_in: bool) -> None:
    if not _CODE.fullmatch(code):
        raise CannotScaffoldError(f"`{code}` is no code: two to four capital letters and three digits, such as TL150")
    if not _NAME.fullmatch(name):
        raise CannotScaffoldError(f"`{name}` is no rule name: lower-case words joined by hyphens, such as my-rule")
    if built_in != (code.rstrip("0123456789") == OWN_PREFIX):
        owner = "the built-in pack, which takes no others" if built_in else "trainlint's own rules"
        raise CannotScaffoldError(f"codes that start with {OWN_PREFIX} belong to {owner}; choose another code")
    if registry.find(code) is not None:
        raise CannotScaffoldError(f"the code {code} is taken; `trainlint rules` lists all")
    if name in registry.codes:
        raise CannotScaffoldError(f"the name `{name}` is taken by {registry.codes[name]}; choose another one")


def _own_folder() -> Path:
    """The folder of the built-in pack in the checkout that runs."""
    folder = next(Path(pack.folder) for pack in installed_packs() if pack.name == BUILT_IN)
    if not (folder.parents[1] / "pyproject.toml").exists():
        raise CannotScaffoldError("trainlint does not run from a checkout; say with --package where your pack lies")
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code, 2 where the rule cannot be written."""
    parser = argparse.ArgumentParser(
        prog="python -m trainlint.lint.scaffold",
        description="Write the file of a new rule, with all its parts in place and working.",
    )
    parser.add_argument("--code", required=True, help="code of the rule: capital letters and three digits")
    parser.add_argument("--name", required=True, help="name of the rule: lower-case words joined by hyphens")
    parser.add_argument("--family", required=True, choices=FAMILIES, help="family that the rule is listed under")
    parser.add_argument("--package", type=Path, metavar="DIR", help="import package of another pack than the built-in")
    chosen = parser.parse_args(arguments)
    try:
        path = write_rule(chosen.code, chosen.name, Family(chosen.family), chosen.package)
    except CannotScaffoldError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"Wrote {path}. Its parts work as they are; replace them by your rule's own, examples first.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
