from __future__ import annotations

from trainlint.fixes.recipe import Applicability, Fix, RemoveText
from trainlint.lint.finding import Family, Finding, Tag
from trainlint.lint.rule import FileRule, invalid, valid
from trainlint.semantics.context import Site


class UnusedSuppression(FileRule):
    """A suppression comment silences nothing.

    ## What it does
    Reports `# trainlint: ignore[…]`, `# trainlint: ignore-file[…]`, `# trainlint: off[…]` and the codes of this tool in
    `# noqa: …` where no finding is there to be silenced: the code was mended, moved, or never reported. Codes of rules
    that were not selected in this run, and codes of other tools, are left alone.

    ## Why it is slow
    It is not about speed. A comment that silences nothing hides the next finding on its line.

    ## When it is fine
    While the same code is checked under several configurations.

    ## Example
    ```python
    total += loss.detach()  # trainlint: ignore[TL201] read once per step
    ```

    ## Use instead
    ```python
    total += loss.detach()
    ```

    ## Fix safety
    Safe: the fix removes the comment, or the codes in it that silence nothing; no code changes.

    ## How the probe confirms it
    It does not: nothing of it shows at run time.

    ## References
    - ruff, unused-noqa, the same idea for ruff's own rules: https://docs.astral.sh/ruff/rules/unused-noqa/
    """

    code, name, family = "TL003", "unused-suppression", Family.TOOL
    fix_class = Applicability.SAFE
    tag = Tag.UNNECESSARY
    examples = (
        invalid(
            """
            import torch

            model = torch.nn.Linear(4, 2)  # trainlint: ignore[TL201] read once  # expect: TL003
            """,
            because="nothing on this line waits for a device",
            fixed="""
            import torch

            model = torch.nn.Linear(4, 2)
            """,
        ),
        invalid(
            """
            import torch

            model = torch.nn.Linear(4, 2)  # noqa: TL202  # expect: TL003
            """,
            because="nothing on this line prints",
            fixed="""
            import torch

            model = torch.nn.Linear(4, 2)
            """,
        ),
        invalid(
            """
            # trainlint: ignore-file[TL101] tokenized in the dataset  # expect: TL003
            import torch

            model = torch.nn.Linear(4, 2)
            """,
            because="nothing in this file tokenizes",
            fixed="""
            import torch

            model = torch.nn.Linear(4, 2)
            """,
        ),
        valid(
            """
            import torch

            model = torch.nn.Linear(4, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(1000):
                loss = model(torch.randn(8, 4, device="cuda")).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                torch.cuda.synchronize()  # trainlint: ignore[TL205] step times go to the benchmark's table
            """,
            because="it silences a finding",
        ),
        valid(
            """
            import torch  # noqa: F401
            """,
            because="the code belongs to another tool",
        ),
        valid(
            """
            import torch

            model = torch.nn.Linear(4, 2)  # type: ignore[no-untyped-call]
            """,
            because="the comment belongs to another tool",
        ),
        valid(
            """
            import torch

            NOTE = "# trainlint: ignore[TL201] in a string is no comment"
            """,
            because="text in a string suppresses nothing",
        ),
    )

    def fix(self, finding: Finding) -> Fix | None:
        """Remove the text that the engine gave as subject: the comment, or the codes in it that silence nothing."""
        if not isinstance(finding.subject, Site):
            return None
        return Fix(Applicability.SAFE, "Remove the unused suppression", (RemoveText(finding.subject),))
