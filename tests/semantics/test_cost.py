"""What the walk of a program costs grows as the program does, counted in calls of functions."""

from __future__ import annotations

from pathlib import Path

from tests.counted_calls import calls_of

from trainlint.semantics import code, guards
from trainlint.semantics.extract import extract
from trainlint.semantics.link import Linker, LinkOptions
from trainlint.semantics.node_facts import NodeFacts
from trainlint.semantics.values import UNKNOWN
from trainlint.semantics.vocabulary import GuardKind


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


def models_that_each_define(count: int) -> dict[str, str]:
    """A package whose models all have functions of the same names, and all see each other."""
    everything = "".join(f"from . import model_{number}\n" for number in range(count))
    model = (
        "import torch\nimport models\n\n"
        "def rotate(x):\n    return x.transpose(0, 1)\n\n"
        "def attend(x):\n    return rotate(x)\n\n"
        "class Model:\n    def forward(self, x):\n        return attend(x)\n\n"
        + "".join(f"def head_{number}(x):\n    return attend(rotate(x))\n\n" for number in range(10))
    )
    return {"models/__init__.py": everything} | {f"models/model_{number}.py": model for number in range(count)}


def test_functions_that_many_files_define_are_met_once_in_a_search() -> None:
    def cost(count: int) -> int:
        facts = {Path("/project", name): extract(text) for name, text in models_that_each_define(count).items()}
        interest = Linker(facts, LinkOptions()).interest
        functions = [(path, index) for path in facts for index in range(len(facts[path].functions))]
        return calls_of(lambda: [interest.of(*function) for function in functions])

    cost(2)
    assert cost(40) < 3 * cost(20)


def test_what_a_model_names_is_met_once() -> None:
    def cost(count: int) -> int:
        facts = {Path("/project", name): extract(text) for name, text in models_that_each_define(count).items()}
        interest = Linker(facts, LinkOptions()).interest
        model = Path("/project/models/model_0.py"), "Model"
        return calls_of(lambda: list(interest.functions_named_by(model)))

    cost(2)
    assert cost(40) < 3 * cost(20)


def test_files_that_import_each_other_are_gone_through_once() -> None:
    def cost(count: int) -> int:
        facts = {Path("/project", name): extract(text) for name, text in models_that_each_define(count).items()}
        linker = Linker(facts, LinkOptions())
        return calls_of(lambda: [linker.closure(path) for path in facts])

    cost(2)
    assert cost(40) < 3 * cost(20)


def test_files_that_import_each_other_share_what_they_import_and_no_others_do() -> None:
    files = {
        "first.py": "import second\n",
        "second.py": "import third\nimport other\n",
        "third.py": "import first\n",
        "other.py": "import last\n",
        "last.py": "",
        "train.py": "import third\n",
    }
    paths = {name: Path("/project", name) for name in files}
    facts = {paths[name]: extract(text) for name, text in files.items()}
    circle = {paths[name] for name in ("first.py", "second.py", "third.py", "other.py", "last.py")}
    for start in files:
        linker = Linker(facts, LinkOptions())
        linker.closure(paths[start])
        assert linker.closure(paths["first.py"]) == circle
        assert linker.closure(paths["second.py"]) is linker.closure(paths["first.py"])
        assert linker.closure(paths["third.py"]) is linker.closure(paths["first.py"])
        assert linker.closure(paths["other.py"]) == {paths["other.py"], paths["last.py"]}
        assert linker.closure(paths["train.py"]) == circle | {paths["train.py"]}


def test_what_the_words_of_a_comparison_say_is_found_once() -> None:
    statement = extract("if step - last_logged_step >= interval:\n    pass\n").unit(0)
    assert isinstance(statement, code.If)
    nodes = NodeFacts()

    def classify() -> None:
        kinds = guards.classify(statement.test, lambda node: UNKNOWN, nodes)
        assert kinds.positive == (GuardKind.INTERVAL,)

    first, again = calls_of(classify), calls_of(classify)
    assert 3 * again < first
