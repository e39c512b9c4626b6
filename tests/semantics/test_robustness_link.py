"""Programs that could make an interpreter crash or run for ever: cycles, recursion, shadowing, depth and size."""

from __future__ import annotations

import sys
import threading
import time

import pytest
from marked_programs import check, plain, program, table

from trainlint.lint.analyze import analyze

_GENEROUS = 20.0
"""Seconds that a small hostile program may take on a slow, busy machine; it takes a fraction of one."""

LOOP = """
for images, labels in train_loader:
    loss = criterion(model(images.to(device)), labels.to(device))
    loss.backward()
    optimizer.step()
    print(loss.item())  # runs: per-step training, reads: device
"""

RECURSION = {
    "a variable that is bound by a condition about itself": """
        def flat(value, other=None):
            other = (other.detach() if other is not None else None).reshape(-1)
            value = (value.detach() if value is not None else None).reshape(-1)
            return value

        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            print(flat(loss).item())  # runs: per-step training
        """,
    "a function that calls itself": """
        def walk(value, depth):
            if depth > 10:
                return value
            print(depth)  # runs: per-step training
            return walk(value * 2, depth + 1)

        for images, labels in train_loader:
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            print(walk(loss, 0).item())  # runs: per-step training
        """,
    "mutual recursion": """
        def even(n):
            return n == 0 or odd(n - 1)

        def odd(n):
            print(n)  # runs: per-step training
            return n != 0 and even(n - 1)

        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            even(10)
        """,
    "mutual recursion of methods": """
        class Tree:
            def left(self, node):
                return self.right(node.left)

            def right(self, node):
                print(node)  # runs: per-step training
                return self.left(node.right) + self.right(node.right)

        tree = Tree()
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            tree.left(labels)
        """,
    "a function that returns itself": """
        def again(value):
            return again

        again(1)(2)(3)(4)
        f = again
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            f = f(labels)
            print("step")  # runs: per-step training
        """,
    "a lambda that calls itself": """
        fix = lambda f: f(f)
        fix(fix)
        fix(lambda f: f(f))
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            print("step")  # runs: per-step training
        """,
    "a partial of a partial of itself": """
        from functools import partial

        def call(f, *rest):
            return f(partial(call, f, *rest))

        p = partial(call, call)
        p = partial(p, p)
        p()
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            print("step")  # runs: per-step training
        """,
    "a decorator that decorates itself": """
        def decorate(f):
            @decorate
            def wrapped(*args):
                return f(*args)
            return wrapped

        @decorate
        def loss_of(images, labels):
            return criterion(model(images), labels)

        for images, labels in train_loader:
            loss_of(images.to(device), labels.to(device)).backward()
            optimizer.step()
            print("step")  # runs: per-step training
        """,
    "a module whose forward calls the module": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.child = self

            def forward(self, x):
                return self.child(x) + self(x)

        net = Net().cuda()
        for images, labels in train_loader:
            criterion(net(images.cuda()), labels.cuda()).backward()
            optimizer.step()
            print("step")  # runs: per-step training
        """,
    "a constructor that makes its own class": """
        class Node:
            def __init__(self, depth):
                self.child = Node(depth - 1) if depth else None
                self.children = [Node(depth - 1) for _ in range(depth)]

        Node(3)
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            print("step")  # runs: per-step training
        """,
    "an iterator that asks for an iterator of itself": """
        class Stream:
            def __iter__(self):
                return iter(self)

        stream = Stream()
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            for item in enumerate(stream):
                print("item")
            print("step")  # runs: per-step training
        """,
    "a property that reads itself": """
        class State:
            @property
            def value(self):
                return self.value

            def __getattr__(self, name):
                return getattr(self, name)

            def __call__(self, *args):
                return self(*args)

            def __iter__(self):
                return iter(self)

            def __enter__(self):
                with self as inner:
                    return inner

        state = State()
        for images, labels in train_loader:
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            state.value, state.other, state(1)
            for item in state:
                print("item")
            print("step")  # runs: per-step training
        """,
}

GENERATORS = {
    "a generator that yields itself": """
        def serpent():
            me = serpent()
            yield me
            yield from me

        for inner in serpent():
            for deeper in inner:
                print("deeper")
        """,
    "a generator that delegates to itself": """
        def endless():
            yield 1
            yield from endless()

        for value in endless():
            print(value)
        """,
    "two generators that delegate to each other": """
        def first():
            yield from second()

        def second():
            yield from first()

        print(list(first()), next(second()))
        """,
    "a generator that iterates its own attribute": """
        class Stream:
            def __iter__(self):
                for item in self:
                    yield item

        for item in Stream():
            print(item)
        """,
    "a generator that is passed to itself": """
        def chain(source):
            for item in source:
                yield chain(item)

        for item in chain(chain(chain([]))):
            print(item)
        """,
    "a variable that wraps itself in each turn": """
        def wrap(source):
            for item in source:
                yield item

        data = train_loader
        while True:
            data = wrap(data)
            nested = [nested for nested in data]
            break
        """,
}

CLASSES = {
    "a class that is its own base": """
        class Loop(Loop):
            def run(self):
                return super().run()

        Loop().run()
        """,
    "two classes that are each other's base": """
        class First(Second):
            def run(self):
                return super().run()

        class Second(First):
            def run(self):
                return super().run()

        First().run()
        Second().run()
        """,
    "a class that is redefined over itself": """
        class Net(nn.Module):
            pass

        class Net(Net):
            def forward(self, x):
                return super().forward(x)

        class Net(Net):
            def forward(self, x):
                return super().forward(x)

        Net()(3)
        """,
    "a diamond": """
        class Top:
            def run(self):
                print("top")

        class Left(Top):
            def run(self):
                super().run()

        class Right(Top):
            def run(self):
                super().run()

        class Bottom(Left, Right):
            def run(self):
                super().run()

        Bottom().run()
        """,
    "a base that is a call of the class": """
        def make(base):
            class Made(base):
                pass
            return make(Made)

        class Mine(make(object)):
            pass

        Mine()
        """,
    "an instance that holds itself": """
        class Node:
            pass

        node = Node()
        node.next = node
        node.all = [node, {"me": node}, (node, node)]
        node.next.next.next.all[0].next = node
        for item in node.all:
            print(item)
        """,
    "a dict and a list that hold themselves": """
        table, row = {}, []
        table["me"] = table
        row.append(row)
        for _ in range(10):
            table = {"inner": table, "row": row}
            row = [row, table]
            pair = (row, table)
            row, table = pair[0], {"x": pair}
        print(table, row)
        """,
    "a tuple that doubles in each turn": """
        pair = (1, 2)
        for _ in range(100):
            pair = (pair, pair)
            pair = pair + pair
        both = {**dict(a=pair), **dict(b=pair)}
        """,
}

SHADOWS = {
    "every name that matters is something else": """
        import torch
        torch = 3
        print = len = range = enumerate = zip = None
        for i in range(3):
            print(torch.item())
        """,
    "a module that is called like the library": """
        torch = torch.nn = torch.nn.Linear = 1
        """,
    "a parameter, a loop variable and a comprehension of the same name": """
        def f(x):
            for x in x:
                x = [x for x in x for x in x if x]
                with x as x:
                    x: x = lambda x=x: x
            return x
        f(f)
        """,
    "names before they are bound": """
        print(later)
        later()
        def later():
            global later, never
            del never
            later = later
            nonlocal_value = later
            return undefined.name[missing]
        """,
    "`self` under another name, and methods without parameters": """
        class Odd:
            def method():
                return method

            def other(this):
                this.value = this.other

            @staticmethod
            def third(self):
                return self.third

        Odd().method()
        Odd().other().value()
        Odd.third(Odd)
        """,
    "wrong calls": """
        def f(a, b=1, *c, d, **e):
            return a.b.c.d
        f()
        f(1, 2, 3, 4, 5, d=6, d2=7)
        f(*f, **f)
        f(a=1, *[2], b=3)
        nn.Linear()()()()
        DataLoader()
        torch.optim.SGD()
        model.parameters()()()[3].grad.item().x
        """,
}


def hostile(text: str) -> str:
    """A hostile text before a training loop that must still be understood."""
    return plain(text) + "\n" + LOOP.lstrip()


@table(RECURSION)
def test_recursion_ends(files: str) -> None:
    start = time.monotonic()
    check(plain(files))
    assert time.monotonic() - start < _GENEROUS


@table({**GENERATORS, **CLASSES})
def test_what_loops_does_not_hide_the_training_loop_behind_it(files: str) -> None:
    start = time.monotonic()
    check(hostile(files))
    assert time.monotonic() - start < _GENEROUS


@table(SHADOWS)
def test_shadowed_and_wrong_names_do_no_harm(files: str) -> None:
    start = time.monotonic()
    analyze({"train.py": hostile(files)})
    assert time.monotonic() - start < _GENEROUS


IMPORTS = {
    "two modules that import each other": {
        "train.py": "import first\n" + plain("") + LOOP,
        "first.py": "import second\ndef f():\n    return second.g()\nf()\n",
        "second.py": "import first\ndef g():\n    return first.f()\ng()\n",
    },
    "two modules that import names from each other": {
        "train.py": "from first import f\n" + plain("") + LOOP + "    f(loss)\n",
        "first.py": "from second import g\ndef f(x):\n    print(x.item())  # reads: device\n    return g(x)\n",
        "second.py": "from first import f\ndef g(x):\n    return f(x)\n",
    },
    "a cycle of star imports": {
        "train.py": "from first import *\n" + plain("") + LOOP + "    f(loss)\n",
        "first.py": "from second import *\ndef f(x):\n    print(x.item())  # runs: per-step training\n",
        "second.py": "from third import *\n",
        "third.py": "from first import *\n",
    },
    "a star import of itself": {
        "train.py": "from train import *\nimport train\n" + plain("") + LOOP,
    },
    "a package whose __init__ imports its modules, which import it": {
        "train.py": "import pkg\n" + plain("") + LOOP + "    pkg.f(loss)\n",
        "pkg/__init__.py": "from .a import *\nfrom .b import *\nfrom . import a, b\n",
        "pkg/a.py": "from . import b\nfrom pkg import *\ndef f(x):\n    print(x.item())  # runs: per-step training\n",
        "pkg/b.py": "import pkg.a\nfrom pkg.a import f as g\nfrom pkg import b\n",
    },
    "a package and a module of one name": {
        "train.py": "import thing\n" + plain("") + LOOP,
        "thing.py": "import thing.part\n",
        "thing/__init__.py": "from thing import part\n",
        "thing/part.py": "import thing\n",
    },
    "an import that leads out of the project": {
        "train.py": "from ....... import x\nfrom ...a.b import *\nfrom . import train\n" + plain("") + LOOP,
    },
    "classes that are each other's base across files": {
        "train.py": "from a import A\n" + plain("") + "A().run()\n" + LOOP,
        "a.py": "from b import B\nclass A(B):\n    def run(self):\n        return super().run()\n",
        "b.py": "from a import A\nclass B(A):\n    def run(self):\n        return super().run()\n",
    },
}


@table(IMPORTS)
def test_import_cycles_end(files: dict[str, str]) -> None:
    start = time.monotonic()
    check(files)
    assert time.monotonic() - start < _GENEROUS


# --------------------------------------------------------------------------------------------------- size and depth


def nested(opening: str, depth: int) -> str:
    """A block nested `depth` deep that prints at its end."""
    lines = ["    " * level + opening for level in range(depth)]
    return "\n".join([*lines, "    " * depth + "print('deep')", ""])


DEEP = {
    "conditions": nested("if x:", 90),
    "loops": nested("for x in y:", 19),
    "with blocks": nested("with x:", 19),
    "functions": "".join("    " * i + f"def f{i}():\n" for i in range(60)) + "    " * 60 + "pass\n",
    "classes": "".join("    " * i + f"class C{i}:\n" for i in range(60)) + "    " * 60 + "pass\n",
    "a chain of attributes": "x" + ".y" * 500 + "\n",
    "a chain of calls": "x" + "()" * 90 + "\n",
    "a chain of methods": "x" + ".y()" * 300 + "\n",
    "a chain of operators": "x = " + " + ".join(["y"] * 700) + "\n",
    "a chain of conditions": "x = " + " and ".join(["y"] * 1400) + "\n",
    "an elif chain": "if x == 0:\n    pass\n" + "".join(f"elif x == {i}:\n    pass\n" for i in range(1, 400)),
    "nested lists": "x = " + "[" * 80 + "]" * 80 + "\n",
    "nested calls": "x = " + "f(" * 80 + ")" * 80 + "\n",
    "nested lambdas": "x = " + "lambda: " * 80 + "1\n",
    "a long list": "x = [" + "1, " * 20_000 + "]\n",
    "a long dict": "x = {" + "".join(f"'{i}': {i}, " for i in range(5_000)) + "}\n",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP.keys())
def test_depth_and_length_do_no_harm(text: str) -> None:
    start = time.monotonic()
    check(plain("") + "def unrelated(x, y, f):\n    return x\n" + text + LOOP)
    assert time.monotonic() - start < _GENEROUS


CHAINS = {
    "functions that call the next": (200, "def f{i}(x):\n    return f{next}(x)\n"),
    "functions that call the next twice": (200, "def f{i}(x):\n    return f{next}(x) + f{next}(x)\n"),
    "functions that call all others": (30, "def f{i}(x):\n    for g in (f0, f1, f2, f3, f{next}):\n        g(x)\n"),
    "functions with branches that call the next": (
        60,
        "def f{i}(x):\n    if x > {i}:\n        return f{next}(x)\n    elif x:\n        return f{next}(x * 2)\n"
        "    return f{next}(3)\n",
    ),
    "generators over the next": (60, "def f{i}(x):\n    for y in f{next}(x):\n        yield y\n"),
    "loops over calls of the next": (60, "def f{i}(x):\n    for y in x:\n        f{next}(y)\n        f{next}(x)\n"),
    "classes that derive from the next": (
        100,
        "class C{i}:\n    def run(self, x):\n        return C{next}().run(x)\ndef f{i}(x):\n    return C{i}().run(x)\n",
    ),
}


@pytest.mark.parametrize(("count", "pattern"), CHAINS.values(), ids=CHAINS.keys())
def test_many_functions_that_call_each_other(count: int, pattern: str) -> None:
    text = "".join(pattern.format(i=i, next=(i + 1) % count) for i in range(count))
    start = time.monotonic()
    check(plain("") + text + LOOP + "    f0(loss)\n")
    assert time.monotonic() - start < _GENEROUS


def test_a_file_of_ten_thousand_lines() -> None:
    block = program(
        {
            "block.py": """
                class Part{i}(nn.Module):
                    def __init__(self, width=8):
                        super().__init__()
                        self.body = nn.Linear(width, width)
                        self.scale = {i}

                    def forward(self, x, mask=None):
                        if mask is not None:
                            x = x * mask
                        for _ in range(3):
                            x = self.body(x) * self.scale
                        return x

                def helper{i}(values, limit={i}):
                    total = 0
                    for index, value in enumerate(values):
                        if index % 10 == 0 and value > limit:
                            total += value
                        else:
                            total -= value
                    return total
                """
        }
    )["block.py"]
    text = plain("") + "".join(block.replace("{i}", str(i)) + "\n" for i in range(480)) + LOOP
    assert text.count("\n") > 10_000
    start = time.monotonic()
    check(text)
    assert time.monotonic() - start < 3 * _GENEROUS


def test_a_script_of_ten_thousand_lines_without_functions() -> None:
    block = (
        "x{i} = torch.zeros({i})\nif x{i} is not None:\n    y{i} = [x{i}, {i}]\nz{i} = {'a': y{i}, 'b': x{i}.sum()}\n"
    )
    text = plain("") + "".join(block.replace("{i}", str(i)) for i in range(2_500)) + LOOP
    assert text.count("\n") > 10_000
    start = time.monotonic()
    check(text)
    assert time.monotonic() - start < 3 * _GENEROUS


def test_many_branches_in_a_row_do_not_multiply() -> None:
    branches = "".join(
        f"if a == {i}:\n    v = {i}\nelif b:\n    v = (v, {i})\nelse:\n    w = [v, w]\n" for i in range(300)
    )
    start = time.monotonic()
    check(plain("a, b, v, w = 1, 2, 3, 4") + branches + LOOP)
    assert time.monotonic() - start < _GENEROUS


def test_linking_leaves_the_recursion_limit_as_it_was() -> None:
    before = sys.getrecursionlimit()
    analyze({"train.py": plain("def f(x):\n    return f(x)\nf(1)")})
    assert sys.getrecursionlimit() == before


def test_linking_works_in_a_thread_of_the_usual_size() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            check(plain(RECURSION["mutual recursion of methods"]))
            check(hostile(CLASSES["a tuple that doubles in each turn"]))
        except BaseException as error:  # what fails in a thread must fail the test
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(2 * _GENEROUS)
    assert not thread.is_alive()
    assert not failures


EMPTY = [
    "",
    "\n",
    "# nothing\n",
    '"""Nothing."""\n',
    "pass\n",
    "import torch\n",
    "...\n",
    "if __name__ == '__main__':\n    pass\n",
]


@pytest.mark.parametrize("text", EMPTY)
def test_files_with_nothing_in_them(text: str) -> None:
    project = analyze({"train.py": text})
    assert not project.reports and not project.syncs and not project.loaders


def test_no_files_at_all() -> None:
    assert not analyze({}).entries
