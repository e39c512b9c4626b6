"""What the walk of a program costs grows as the program does, counted in calls of functions."""

from __future__ import annotations

from pathlib import Path

from tests.counted_calls import calls_of

from trainlint.semantics.extract import extract
from trainlint.semantics.link import Linker, LinkOptions


def layers_of_star_imports(count: int) -> dict[str, str]:
    """A module that has names, and lacks others, by way of layers of two modules each. Both modules of a layer import
    all of both in the next one, so that each layer doubles the ways to the last."""
    stars = [f"from layer_{number}_a import *\nfrom layer_{number}_b import *\n" for number in range(1, count)]
    layers = {
        f"layer_{number}_{side}.py": (stars[number] if number < count - 1 else "") + f"value_{number}_{side} = 1\n"
        for number in range(count)
        for side in "ab"
    }
    first = "from layer_0_a import *\nfrom layer_0_b import *\n"
    reading = first + "\ndef read(x):\n    return float(x) + len(missing) + other(x)\n"
    return layers | {"reading.py": reading, "train.py": "import reading\n\nreading.read(1)\n"}


def test_a_name_is_looked_for_once_in_each_module_that_star_imports_lead_to() -> None:
    def cost(layers: int) -> int:
        facts = {Path("/project", name): extract(text) for name, text in layers_of_star_imports(layers).items()}
        linker = Linker(facts, LinkOptions())
        return calls_of(lambda: linker.walk(Path("/project/train.py")))

    cost(2)  # patterns of names are compiled when they are first asked
    assert cost(12) < 3 * cost(6)
