from __future__ import annotations

from trainlint.lint.finding import Family, Severity
from trainlint.lint.rule import FileRule, invalid, valid


class SuppressionWithoutReason(FileRule):
    """A suppression comment does not say why.

    ## What it does
    With `require-suppression-reason = true`, reports suppressions that give no reason after their codes. `# noqa`
    comments are shared with other tools and have no place for a reason; they are left alone.

    ## Why it is slow
    It is not about speed. A reason tells the next reader whether the finding was weighed or waved away.

    ## When it is fine
    Where the team keeps its reasons elsewhere. The rule is off unless the configuration asks for it.

    ## Example
    ```python
    torch.cuda.synchronize()  # trainlint: ignore[TL205]
    ```

    ## Use instead
    ```python
    torch.cuda.synchronize()  # trainlint: ignore[TL205] step times go to the benchmark's table
    ```

    ## Fix safety
    There is no fix: only the author knows the reason.

    ## How the probe confirms it
    It does not: nothing of it shows at run time.

    ## References
    - ESLint, require-description, the same idea for JavaScript:
      https://eslint-community.github.io/eslint-plugin-eslint-comments/rules/require-description.html
    """

    code, name, family = "TL004", "suppression-without-reason", Family.TOOL
    severity = Severity.INFO
    default = False
    examples = (
        invalid(
            """
            import torch

            torch.cuda.synchronize()  # trainlint: ignore[TL205]  # expect: TL004
            """,
            because="no reason follows the code",
        ),
        invalid(
            """
            # trainlint: ignore-file[TL2]  # expect: TL004
            import torch
            """,
            because="a whole file is silenced, and nobody knows why",
        ),
        invalid(
            """
            import torch

            # trainlint: off[TL205]  # expect: TL004
            torch.cuda.synchronize()
            # trainlint: on[TL205]
            """,
            because="no reason follows the code of the range",
        ),
        valid(
            """
            import torch

            torch.cuda.synchronize()  # trainlint: ignore[TL205] the timer below needs it
            """,
            because="it says why",
        ),
        valid(
            """
            # trainlint: ignore-file[TL2] a benchmark: its syncs are what it measures
            import torch
            """,
            because="it says why the whole file is silenced",
        ),
        valid(
            """
            import torch

            torch.cuda.synchronize()  # noqa: TL205
            """,
            because="a noqa comment is shared with other tools and has no place for a reason",
        ),
        valid(
            """
            import torch

            # trainlint: off[TL205] a benchmark: its syncs are what it measures
            torch.cuda.synchronize()
            # trainlint: on[TL205]
            """,
            because="the reason stands where the range begins; its end needs none",
        ),
    )
