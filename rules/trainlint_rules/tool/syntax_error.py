from __future__ import annotations

from trainlint.lint.finding import Family, Severity
from trainlint.lint.rule import FileRule, invalid, valid


class SyntaxErrorRule(FileRule):
    """A file does not parse, so nothing in it can be checked.

    ## What it does
    Reports the place where the parser gave up, with the parser's reason. The other files are still checked. The rule
    cannot be deselected: a file that was not read must not look like one that is clean.

    ## Why it is slow
    It is not about speed: the job would not start.

    ## When it is fine
    Files that are not meant to be run, such as templates. Exclude them by `exclude` in the configuration.

    ## Example
    ```python
    def train(model, loader)
        for batch in loader:
            ...
    ```

    ## Use instead
    ```python
    def train(model, loader):
        for batch in loader:
            ...
    ```

    ## Fix safety
    There is no fix.

    ## How the probe confirms it
    It does not: the job fails before its first step.

    ## References
    - Python, full grammar specification: https://docs.python.org/3/reference/grammar.html
    """

    code, name, family = "TL001", "syntax-error", Family.TOOL
    severity = Severity.ERROR
    examples = (
        invalid(
            """
            import torch

            def train(model, loader)  # expect: TL001
                for batch in loader:
                    model(batch).sum().backward()
            """,
            because="the colon after the function's header is missing",
        ),
        invalid(
            """
            import torch

            model = torch.nn.Linear(4, 2)
            print "parameters", sum(p.numel() for p in model.parameters())  # expect: TL001
            """,
            because="a print statement of Python 2",
        ),
        invalid(
            """
            import torch

            def train(model, loader):
                for batch in loader:
                    loss = model(batch).sum()
                  loss.backward()  # expect: TL001
            """,
            because="the indentation matches no outer block",
        ),
        valid(
            """
            import torch

            def train(model, loader):
                for batch in loader:
                    model(batch).sum().backward()
            """,
            because="it parses",
        ),
        valid("", because="an empty file parses"),
        valid(
            '''
            """Only a docstring."""
            ''',
            because="a module may hold nothing but its docstring",
        ),
        valid(
            """
            import torch

            def scale(batch):
                match batch:
                    case {"pixels": pixels}:
                        return pixels / 255
                    case torch.Tensor():
                        return batch / 255
            """,
            because="match statements are Python 3.10",
        ),
    )
