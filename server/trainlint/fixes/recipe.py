"""What a fix changes, said in words of the code rather than of its text.

A rule returns recipes; `fixes.realize` turns them into text edits with libcst, on demand and on the flagged top-level
statement alone. Recipes are small, immutable and serializable, so findings can be cached with their fixes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from trainlint.semantics.context import Site


class Applicability(StrEnum):
    SAFE = "safe"
    """The losses of the same seed are bit-equal on the same device before and after."""
    UNSAFE = "unsafe"
    """May change values, types, random streams, memory or output, and code elsewhere that relies on them may fail."""
    DISPLAY = "display"
    """Advice without edits."""
    NONE = "none"
    """The rule offers no fix."""

    @property
    def label(self) -> str:
        """How people are told of it: "safe", "unsafe", "advice" or "none"."""
        return "advice" if self is Applicability.DISPLAY else self.value


@dataclass(frozen=True, slots=True)
class SetArgument:
    """Pass `keyword=value` in the call at `call`: replace the value where the keyword, or the positional argument at
    `position`, is there; else append it."""

    call: Site
    keyword: str
    value: str
    position: int | None = None


@dataclass(frozen=True, slots=True)
class RemoveArgument:
    """Drop `keyword=…`, or the positional argument at `position`, from the call at `call`, if it is there."""

    call: Site
    keyword: str
    position: int | None = None


@dataclass(frozen=True, slots=True)
class ReplaceExpression:
    """Replace the expression at `expression`. In `template`, `{0}` stands for its present text, and `{name}` for the
    text of the argument `name` of it, if it is a call; parentheses are added where precedence asks for them."""

    expression: Site
    template: str


@dataclass(frozen=True, slots=True)
class ReplaceByPart:
    """Replace the expression at `expression` by the part of it at `part`, as the fix's other recipes leave that part:
    `torch.zeros(n, device=d).to(d)` becomes `torch.zeros(n, device=d)`."""

    expression: Site
    part: Site


@dataclass(frozen=True, slots=True)
class AccumulateOnDevice:
    """Gather the tensor at `part` instead of the number that `expression` reads of it, in `total += loss.item()` or
    `losses.append(loss.item())`, and read the numbers where the total or the list is used.

    Not offered where a use is not understood, or is in the loop that gathers.
    """

    expression: Site
    part: Site
    floating: bool = False
    """Whether the tensor is known to hold no whole numbers."""


@dataclass(frozen=True, slots=True)
class RewriteCall:
    """Call `replacement` instead of the callee at `function` (the expression before the parenthesis).

    The arguments become `leading`, as they are; then those of the present call, in order, its positional ones passed by
    keyword after `parameters`; then `trailing`, as keyword and value. A starred argument, or more positional arguments
    than `parameters`, cannot be named, and a mapping (`**options`) may hold what is `trailing`: the fix is then not
    offered.
    """

    function: Site
    replacement: str
    parameters: tuple[str, ...]
    leading: tuple[str, ...] = ()
    trailing: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RemoveStatement:
    """Remove the statement that holds `expression`, with an `if` around it that would be left empty and only looks at
    values; any other block left empty gets `pass`."""

    expression: Site


@dataclass(frozen=True, slots=True)
class GuardStatement:
    """Put the statement that holds `expression` under `if condition:`."""

    expression: Site
    condition: str


@dataclass(frozen=True, slots=True)
class GuardBlock:
    """Put the whole loop or block statement at `statement` under `with header:`, or another compound header."""

    statement: Site
    header: str


@dataclass(frozen=True, slots=True)
class InsertBefore:
    """Insert the statement `source` before the statement that holds `expression`, at its indentation."""

    expression: Site
    source: str


@dataclass(frozen=True, slots=True)
class InsertAtStartOfLoop:
    """Insert the statement `source` as the first one of the body of the loop at `loop`."""

    loop: Site
    source: str


@dataclass(frozen=True, slots=True)
class DecorateFunction:
    """Put `@decorator` above the function that encloses `inside`."""

    inside: Site
    decorator: str


@dataclass(frozen=True, slots=True)
class EnsureImport:
    """Make `name` usable in the file of `anywhere`: `import module`, or `from module import name` where it is set."""

    anywhere: Site
    module: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class DropImport:
    """Remove `name`, imported from `module`, from the file of `anywhere`, if nothing uses it once the other recipes
    are applied. An empty `name` stands for `import module as …`."""

    anywhere: Site
    module: str
    name: str


@dataclass(frozen=True, slots=True)
class RemoveText:
    """Remove exactly the text at `text`: a comment, part of a comment."""

    text: Site


Recipe: TypeAlias = (
    SetArgument
    | RemoveArgument
    | ReplaceExpression
    | ReplaceByPart
    | AccumulateOnDevice
    | RewriteCall
    | RemoveStatement
    | GuardStatement
    | GuardBlock
    | InsertBefore
    | InsertAtStartOfLoop
    | DecorateFunction
    | EnsureImport
    | DropImport
    | RemoveText
)


@dataclass(frozen=True, slots=True)
class Fix:
    applicability: Applicability
    message: str
    """What the fix does, as an instruction: "Pass pin_memory=True"."""
    recipes: tuple[Recipe, ...] = ()
    """Empty for a display fix."""
    otherwise: str = ""
    """Advice to give instead where the recipes do not apply to the text; empty where the fix is then just not made."""
    because: str = ""
    """Why it is not as safe as others of its rule are: "the device may be a CPU"; empty where it is."""
