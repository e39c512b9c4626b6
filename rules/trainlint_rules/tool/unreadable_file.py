from __future__ import annotations

from trainlint.lint.finding import Family, Severity
from trainlint.lint.rule import FileRule, invalid, valid


class UnreadableFile(FileRule):
    """A file cannot be read or decoded, so nothing in it can be checked.

    ## What it does
    Reports files that cannot be opened, or whose bytes are not text in the encoding that they declare (UTF-8 where they
    declare none). The other files are still checked. The rule cannot be deselected: a file that was not read must not
    look like one that is clean.

    It also tells of what is valid Python and beyond the limits of trainlint. A file or notebook of more than 20 MB is
    not read; one of more than 1,500,000 characters that uses a training library is not analysed (one that uses none is
    taken for data, and its syntax is not checked). A statement that nests more than 150
    brackets, chains more than 1,500 operators or calls, or joins more than 3,000 strings by writing them next to each
    other is left out, and the rest of its file is analysed; then the finding is a warning, at the statement. Where such
    an expression is in the head of a block (`if …:`) or in a decorator, or where one file has more than 6,000 `elif`
    branches or more than 20 such statements, the whole file is left out.

    ## Why it is slow
    It is not about speed: Python could not read the file either.

    ## When it is fine
    Test data that is broken on purpose, generated tables. Exclude them by `exclude` in the configuration, or put
    `# trainlint: ignore[TL002]` on a statement that is left out.

    ## Example
    ```python
    # -*- coding: utf-9 -*-
    import torch
    ```

    ## Use instead
    ```python
    import torch
    ```

    ## Fix safety
    There is no fix.

    ## How the probe confirms it
    It does not: the job fails before its first step.

    ## References
    - PEP 263, defining Python source code encodings: https://peps.python.org/pep-0263/
    """

    code, name, family = "TL002", "unreadable-file", Family.TOOL
    severity = Severity.ERROR
    examples = (
        invalid(
            """
            # -*- coding: utf-9 -*-  # expect: TL002
            import torch
            """,
            because="no such encoding exists",
        ),
        invalid(
            """
            # -*- coding: ascii -*- für Löser  # expect: TL002
            import torch
            """,
            because="the bytes are not in the encoding that the file declares",
        ),
        invalid(
            """
            #!/usr/bin/env python  # expect: TL002
            # coding: koi8-latin
            import torch
            """,
            because="the encoding may be declared in the second row, too",
        ),
        valid(
            """
            # -*- coding: utf-8 -*- für Löser
            import torch
            """,
            because="the bytes are UTF-8, as declared",
        ),
        valid(
            """
            # Größe der Stapel, 批次大小
            BATCH_SIZE = 32
            """,
            because="UTF-8 is what Python expects where nothing is declared",
        ),
        valid(
            """
            # -*- coding: latin-1 -*-
            BATCH_SIZE = 32
            """,
            because="the declared encoding exists and the bytes fit it",
        ),
        valid("", because="an empty file can be read"),
    )
