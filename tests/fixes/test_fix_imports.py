"""Imports are added once, below those that are there, and dropped once nothing uses them."""

from __future__ import annotations

from pathlib import Path

import pytest
from marks import fix_of, fixed, marked

from trainlint.fixes.apply import apply_fixes
from trainlint.fixes.edits import CannotFix, apply_edits
from trainlint.fixes.realize import realize
from trainlint.fixes.recipe import DropImport, EnsureImport, RemoveStatement, ReplaceExpression

ENSURE = {
    "below the last import": ("import a\nimport b\n\n«c»\n", "import a\nimport b\nimport torch\n\nc\n"),
    "below other statements between imports": (
        "import a\na.b = 1\nimport c\n\n«d»\nimport e\n",
        "import a\na.b = 1\nimport c\nimport torch\n\nd\nimport e\n",
    ),
    "below an import with a comment": ("import a  # why\n«c»\n", "import a  # why\nimport torch\nc\n"),
    "below an import of several rows": (
        "from a import (\n    b,\n)\n«c»\n",
        "from a import (\n    b,\n)\nimport torch\nc\n",
    ),
    "below future imports": (
        '"""Doc."""\nfrom __future__ import annotations\n\n«a»\n',
        '"""Doc."""\nfrom __future__ import annotations\nimport torch\n\na\n',
    ),
    "below a docstring": ('"""Doc."""\n\n«a»\n', '"""Doc."""\n\nimport torch\n\na\n'),
    "below a docstring, above a comment": ('"""Doc."""\n# why\n«a»\n', '"""Doc."""\nimport torch\n\n# why\na\n'),
    "below a first line for the shell": ("#!/usr/bin/python\n«a»\n", "#!/usr/bin/python\nimport torch\n\na\n"),
    "below an encoding and a license": (
        "# coding: utf-8\n# License\n\n«a»\n",
        "# coding: utf-8\n# License\n\nimport torch\n\na\n",
    ),
    "in a file that begins with a definition": ("@d\ndef f():\n    «a»\n", "import torch\n\n@d\ndef f():\n    a\n"),
    "below imports before a try": (
        "import a\ntry:\n    import b\nexcept ImportError:\n    b = None\n«c»\n",
        "import a\nimport torch\ntry:\n    import b\nexcept ImportError:\n    b = None\nc\n",
    ),
    "above the code that needs it": (
        "import a\nif «b»:\n    pass\nimport c\n",
        "import a\nimport torch\nif b:\n    pass\nimport c\n",
    ),
    "present": ("import torch\n«a»\n", "import torch\na\n"),
    "present below a function": ("def f():\n    «a»\nimport torch\n", "def f():\n    a\nimport torch\n"),
    "present too late": ("«a»\nimport torch\n", "import torch\n\na\nimport torch\n"),
    "present among others": ("import os, torch\n«a»\n", "import os, torch\na\n"),
    "present by a submodule": ("import torch.nn\n«a»\n", "import torch.nn\na\n"),
    "present as itself": ("import torch as torch\n«a»\n", "import torch as torch\na\n"),
    "present in a try": ("try:\n    import torch\nfinally:\n    pass\n«a»\n",) * 2,
    "present in the function": ("def f():\n    import torch\n    «a»\n",) * 2,
    "under another name only": ("import torch as th\n«a»\n", "import torch as th\nimport torch\na\n"),
    "submodule under its own name only": ("import torch.nn as nn\n«a»\n", "import torch.nn as nn\nimport torch\na\n"),
    "names of it only": ("from torch import nn\n«a»\n", "from torch import nn\nimport torch\na\n"),
    "star import of it": ("from torch import *\n«a»\n", "from torch import *\nimport torch\na\n"),
    "for type checkers only": (
        "import a\nif a.TYPE_CHECKING:\n    import torch\n«b»\n",
        "import a\nimport torch\nif a.TYPE_CHECKING:\n    import torch\nb\n",
    ),
    "in another function only": (
        "import a\ndef f():\n    import torch\ndef g():\n    «b»\n",
        "import a\nimport torch\ndef f():\n    import torch\ndef g():\n    b\n",
    ),
    "bound in another function": (
        "import a\ndef f(torch): pass\n«b»\n",
        "import a\nimport torch\ndef f(torch): pass\nb\n",
    ),
    "an attribute of that name": ("import a\n«a.torch = 1»\n", "import a\nimport torch\na.torch = 1\n"),
    "CRLF": ("import a\r\n«b»\r\n", "import a\r\nimport torch\r\nb\r\n"),
}
ENSURE = {name: (pair[0], pair[1].replace("«", "").replace("»", "")) for name, pair in ENSURE.items()}


@pytest.mark.parametrize(("before", "after"), ENSURE.values(), ids=ENSURE)
def test_ensure_import_of_a_module(before: str, after: str) -> None:
    assert fixed(before, lambda site: EnsureImport(site, "torch")) == after


ENSURE_STANDARD = {
    "above imports of other packages": ("import torch\n\n«a»\n", "import os\n\nimport torch\n\na\n"),
    "below those from __future__": (
        "from __future__ import annotations\n\nimport torch\n«a»\n",
        "from __future__ import annotations\n\nimport os\n\nimport torch\na\n",
    ),
    "in order": (
        "import io\nimport sys\n\nimport torch\n«a»\n",
        "import io\nimport os\nimport sys\n\nimport torch\na\n",
    ),
    "before names": (
        "from abc import ABC\n\nimport torch\n«a»\n",
        "import os\nfrom abc import ABC\n\nimport torch\na\n",
    ),
    "first of its group": ("import sys\n\nimport torch\n«a»\n", "import os\nimport sys\n\nimport torch\na\n"),
    "not below local imports": (
        "import sys\n\nimport torch\n\nfrom model import Net\nfrom .data import load\n«a»\n",
        "import os\nimport sys\n\nimport torch\n\nfrom model import Net\nfrom .data import load\na\n",
    ),
    "above the comment of an import": (
        '"""Doc."""\n\n# why\nimport torch\n«a»\n',
        '"""Doc."""\n\nimport os\n\n# why\nimport torch\na\n',
    ),
    "below the opening comments": ("# License\nimport torch\n«a»\n", "# License\nimport os\n\nimport torch\na\n"),
    "with a submodule there": ("import os.path\nimport torch\n«a»\n", "import os.path\nimport torch\na\n"),
    "where there is no import": ("def f():\n    «a»\n", "import os\n\ndef f():\n    a\n"),
    "CRLF": ("import torch\r\n«b»\r\n", "import os\r\n\r\nimport torch\r\nb\r\n"),
}


@pytest.mark.parametrize(("before", "after"), ENSURE_STANDARD.values(), ids=ENSURE_STANDARD)
def test_a_module_of_the_standard_library_goes_to_its_group(before: str, after: str) -> None:
    assert fixed(before, lambda site: EnsureImport(site, "os")) == after


ENSURE_NAME = {
    "absent": ("import a\n«b»\n", "from contextlib import nullcontext\n\nimport a\nb\n"),
    "present": ("from contextlib import a, nullcontext\n«b»\n", "from contextlib import a, nullcontext\nb\n"),
    "present under another name": (
        "from contextlib import nullcontext as n\n«b»\n",
        "from contextlib import nullcontext as n\nfrom contextlib import nullcontext\nb\n",
    ),
    "star import": (
        "from contextlib import *\n«b»\n",
        "from contextlib import *\nfrom contextlib import nullcontext\nb\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), ENSURE_NAME.values(), ids=ENSURE_NAME)
def test_ensure_import_of_a_name(before: str, after: str) -> None:
    assert fixed(before, lambda site: EnsureImport(site, "contextlib", "nullcontext")) == after


TAKEN = {
    "assigned": "torch = 1\n«a»\n",
    "assigned to several": "(a, [torch, *b]) = c\n«a»\n",
    "a function": "def torch(): pass\n«a»\n",
    "a class": "class torch: pass\n«a»\n",
    "another import": "import numpy as torch\n«a»\n",
    "another name": "from numpy import torch\n«a»\n",
    "a loop's target": "for torch in a: pass\n«a»\n",
    "a with's target": "with b as torch: pass\n«a»\n",
    "assigned in an expression": "(torch := 1)\n«a»\n",
    "replaced where it is missing": "try:\n    import torch\nexcept ImportError:\n    torch = None\n«a»\n",
    "a parameter": "import torch\ndef f(torch):\n    «a»\n",
    "a local": "import torch\ndef f():\n    torch = 1\n    def g():\n        «a»\n",
    "imported later in the function": "import torch\ndef f():\n    «a»\n    import torch\n",
    "assigned globally in a function": "def f():\n    global torch\n    torch = 1\n«a»\n",
}


@pytest.mark.parametrize("source", TAKEN.values(), ids=TAKEN)
def test_ensure_import_refuses_a_name_that_is_taken(source: str) -> None:
    with pytest.raises(CannotFix, match="stands for something else"):
        fixed(source, lambda site: EnsureImport(site, "torch"))


DROP = {
    "statement": ("import b\nfrom m import a\n«c»\n", "import b\nc\n"),
    "first name": ("from m import a, b\n«c»\n", "from m import b\nc\n"),
    "last name": ("from m import b, a\n«c»\n", "from m import b\nc\n"),
    "last name in brackets": ("from m import (b, a)\n«c»\n", "from m import (b)\nc\n"),
    "row in brackets": (
        "from m import (\n    a,  # why\n    b,\n)\n«c»\n",
        "from m import (\n    b,\n)\nc\n",
    ),
    "last row in brackets": ("from m import (\n    b,\n    a\n)\n«c»\n", "from m import (\n    b,\n)\nc\n"),
    "continued row": ("from m import b, \\\n    a\n«c»\n", "from m import b\nc\n"),
    "with another name": ("from m import a as x, b\n«c»\n", "from m import b\nc\n"),
    "as a module": ("import m.a as x\n«c»\n", "c\n"),
    "twice": ("from m import a\ndef f():\n    from m import a\n«c»\n", "def f():\n    pass\nc\n"),
    "only one in a block": ("with x:\n    from m import a\n«c»\n", "with x:\n    pass\nc\n"),
    "only one under a condition": ("if x:\n    from m import a\n«c»\n", "c\n"),
    "first of a file": ("import b\nfrom m import a\n\nb()\n«c»\n", "import b\n\nb()\nc\n"),
    "all imports of a file": ("from m import a\n\n«c»\n", "c\n"),
    "name as attribute or keyword": ("from m import a\n«c.a(a=1)»\n", "c.a(a=1)\n"),
    "name in prose": ("from m import a\n«c('not a word of it')»\n", "c('not a word of it')\n"),
    "imported from elsewhere too": ("from m import a\nfrom n import a\n«c»\n", "from n import a\nc\n"),
    "used": ("from m import a\n«a»\n",) * 2,
    "used in an annotation": ("from m import a\ndef f(x: 'list[a]'): «c»\n",) * 2,
    "exported": ("from m import a\n__all__ = ['a']\n«c»\n",) * 2,
    "exported by its name": ("from m import a as a\n«c»\n",) * 2,
    "kept on purpose": ("from m import a  # noqa: F401\n«c»\n",) * 2,
    "with a fallback": ("try:\n    from m import a\nexcept ImportError:\n    a = None\n«c»\n",) * 2,
    "from elsewhere": ("from n import a\n«c»\n",) * 2,
    "star": ("from m import *\n«c»\n",) * 2,
    "absent": ("«c»\n", "c\n"),
}
DROP = {name: (pair[0], pair[1].replace("«", "").replace("»", "")) for name, pair in DROP.items()}


@pytest.mark.parametrize(("before", "after"), DROP.values(), ids=DROP)
def test_drop_import_of_a_name(before: str, after: str) -> None:
    assert fixed(before, lambda site: DropImport(site, "m", "a")) == after


SEVERAL = {
    "of the standard library, above the first group": (
        "import torch\n\n«a»\n",
        [("os", None), ("math", None)],
        "import math\nimport os\n\nimport torch\n\na\n",
    ),
    "whole modules before names": (
        "import torch\n«a»\n",
        [("math", "pi"), ("os", None), ("math", "pi")],
        "import os\nfrom math import pi\n\nimport torch\na\n",
    ),
    "into a file without imports": ("«a»\n", [("os", None), ("math", None)], "import math\nimport os\n\na\n"),
    "of both groups, into a file without imports": (
        "«a»\n",
        [("torch", None), ("os", None), ("numpy", None)],
        "import os\n\nimport numpy\nimport torch\n\na\n",
    ),
    "CRLF": ("«a»\r\n", [("os", None), ("math", None)], "import math\r\nimport os\r\n\r\na\r\n"),
}


@pytest.mark.parametrize(("before", "imports", "after"), SEVERAL.values(), ids=SEVERAL)
def test_several_imports_form_one_group(before: str, imports: list[tuple[str, str | None]], after: str) -> None:
    text, [site] = marked(before)
    recipes = [EnsureImport(site, module, name) for module, name in imports]
    assert apply_edits(text, realize(fix_of(*recipes), text)) == after
    assert apply_fixes(text, [fix_of(recipe) for recipe in recipes]).text == after


DROP_MODULE = {
    "plain": ("import m, b\n«c»\n", "import b\nc\n"),
    "under another name": ("import m as x\n«c»\n", "c\n"),
    "used": ("import m as x\n«x.y»\n", "import m as x\nx.y\n"),
}


@pytest.mark.parametrize("name", ["", "m"])
@pytest.mark.parametrize(("before", "after"), DROP_MODULE.values(), ids=DROP_MODULE)
def test_drop_import_of_a_module(before: str, after: str, name: str) -> None:
    assert fixed(before, lambda site: DropImport(site, "m", name)) == after


def test_import_is_dropped_once_the_other_recipes_leave_it_unused() -> None:
    after = fixed(
        "from torch.cuda.amp import autocast\n\nwith «autocast()»:\n    a\n",
        lambda site: DropImport(site, "torch.cuda.amp", "autocast"),
        lambda site: ReplaceExpression(site, "torch.amp.autocast('cuda', {arguments})"),
        lambda site: EnsureImport(site, "torch"),
    )
    assert after == "import torch\n\nwith torch.amp.autocast('cuda'):\n    a\n"


def test_import_is_dropped_with_the_statement_that_used_it() -> None:
    after = fixed("import gc\na\n«gc.collect()»\n", RemoveStatement, lambda site: DropImport(site, "gc", ""))
    assert after == "a\n"


def test_imports_of_a_package_stay_since_others_may_use_them() -> None:
    text, [site] = marked("from m import a\n«c»\n", Path("package/__init__.py"))
    assert apply_edits(text, realize(fix_of(DropImport(site, "m", "a")), text)) == text
