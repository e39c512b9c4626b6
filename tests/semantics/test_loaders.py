"""Loaders, samplers and step loops: their arguments by any route, and what becomes of them."""

from __future__ import annotations

import pytest
from marked_programs import plain, program

from trainlint.lint.analyze import analyze
from trainlint.semantics.link import LinkOptions
from trainlint.semantics.project import DatasetKind, Loader, Project, Sampler
from trainlint.semantics.values import Const, Host, Listing, Option, Tuple
from trainlint.semantics.vocabulary import Frequency, GuardKind, Known, Place, Region

HEAD = """
import argparse
import functools
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler
from torch.utils.data import TensorDataset
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--pin", action="store_true")
args = parser.parse_args()
images = datasets.CIFAR10("data", transform=transforms.ToTensor())
model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
TAIL = """
for epoch in range(3):
    for x, y in loader:
        model(x.cuda()).mean().backward()
        optimizer.step()
"""


def loaders(making: str, tail: str = TAIL) -> list[Loader]:
    """The loaders of a script that makes `loader` in some way and trains with it."""
    return analyze({"train.py": HEAD + program({"x.py": making})["x.py"] + tail}).loaders


def one_loader(making: str, tail: str = TAIL) -> Loader:
    found = loaders(making, tail)
    assert len(found) == 1, [loader.text for loader in found]
    return found[0]


WORKERS = {
    "a literal": ("loader = DataLoader(images, batch_size=32, num_workers=4)", 4),
    "by position": ("loader = DataLoader(images, 32, True, None, None, 4)", 4),
    "a constant of the script": ("WORKERS = 4\nloader = DataLoader(images, num_workers=WORKERS)", 4),
    "a dict of settings": (
        'settings = {"num_workers": 4, "pin_memory": True}\nloader = DataLoader(images, **settings)',
        4,
    ),
    "a dict() call": ("settings = dict(num_workers=4)\nloader = DataLoader(images, **settings)", 4),
    "a dict that grows": (
        'settings = {"batch_size": 32}\nsettings["num_workers"] = 4\nloader = DataLoader(images, **settings)',
        4,
    ),
    "a dict that is updated": (
        'settings = {"batch_size": 32}\nsettings.update({"num_workers": 4})\nloader = DataLoader(images, **settings)',
        4,
    ),
    "two dicts merged": (
        'first, second = {"batch_size": 32}, {"num_workers": 4}\nloader = DataLoader(images, **{**first, **second})',
        4,
    ),
    "a factory": (
        """
        def make(dataset, workers=4):
            return DataLoader(dataset, num_workers=workers)
        loader = make(images)
        """,
        4,
    ),
    "a factory with an argument": (
        """
        def make(dataset, workers=0):
            return DataLoader(dataset, num_workers=workers)
        loader = make(images, workers=4)
        """,
        4,
    ),
    "a factory with **kwargs": (
        """
        def make(dataset, **settings):
            return DataLoader(dataset, **settings)
        loader = make(images, num_workers=4)
        """,
        4,
    ),
    "a partial": ("make = functools.partial(DataLoader, num_workers=4)\nloader = make(images)", 4),
    "a subclass": (
        """
        class Loader(DataLoader):
            pass
        loader = Loader(images, num_workers=4)
        """,
        4,
    ),
    "a subclass with a constructor": (
        """
        class Loader(DataLoader):
            def __init__(self, dataset, **settings):
                super().__init__(dataset, num_workers=4, **settings)
        loader = Loader(images)
        """,
        4,
    ),
    "an attribute of a class": (
        """
        class Config:
            workers = 4
        loader = DataLoader(images, num_workers=Config.workers)
        """,
        4,
    ),
    "a dataclass": (
        """
        from dataclasses import dataclass
        @dataclass
        class Config:
            workers: int = 4
        config = Config()
        loader = DataLoader(images, num_workers=config.workers)
        """,
        4,
    ),
    "nothing": ("loader = DataLoader(images)", None),
}


@pytest.mark.parametrize(("making", "workers"), WORKERS.values(), ids=WORKERS.keys())
def test_arguments_are_found_by_any_route(making: str, workers: int | None) -> None:
    loader = one_loader(making)
    if workers is None:
        assert loader.arguments.absent("num_workers")
    else:
        value = loader.arguments.value("num_workers")
        assert value == Const(workers) or (isinstance(value, Option) and value.default == workers)
    assert loader.trains
    assert loader.restarts


UNKNOWN_WORKERS = {
    "an option": "loader = DataLoader(images, num_workers=args.workers)",
    "unknown settings": "import settings\nloader = DataLoader(images, **settings.LOADER)",
    "a configuration file": "import yaml\nconfig = yaml.safe_load(open('c.yaml'))\n"
    "loader = DataLoader(images, num_workers=config['workers'])",
    "**kwargs of a function that nothing calls": """
        def make(dataset, **settings):
            return DataLoader(dataset, **settings)
        """,
}


@pytest.mark.parametrize("making", UNKNOWN_WORKERS.values(), ids=UNKNOWN_WORKERS.keys())
def test_unknown_arguments_stay_unknown(making: str) -> None:
    (loader,) = loaders(making, "" if "def make" in making else TAIL)
    assert loader.arguments.unknown("num_workers")
    assert not loader.arguments.absent("num_workers")


SETTINGS = "settings = dict(num_workers=4, shuffle=True)\n"


def test_a_key_that_is_deleted_is_not_passed() -> None:
    loader = one_loader(SETTINGS + "del settings['num_workers']\nloader = DataLoader(images, **settings)")
    assert loader.arguments.absent("num_workers")
    assert loader.arguments.constant("shuffle") is True


def test_a_key_that_may_be_deleted_is_unknown() -> None:
    loader = one_loader(
        SETTINGS + "if args.pin:\n    del settings['num_workers']\nloader = DataLoader(images, **settings)"
    )
    assert loader.arguments.unknown("num_workers")
    assert not loader.arguments.absent("num_workers")


BATCHES = {
    "a class of its own": ("Batch(items)", "class Batch:\n    {init}", True),
    "one that pins itself": ("Batch(items)", "class Batch:\n    {init}\n    def pin_memory(self): return self", False),
    "a dictionary by another name": ("Batch(items)", "class Batch(dict):\n    {init}", False),
    "one with an unknown base": ("Batch(items)", "class Batch(elsewhere.Data):\n    {init}", False),
    "a tensor": ("torch.stack(items)", "", False),
    "a class or a tensor": ("Batch(items) if args.pin else torch.zeros(8)", "class Batch:\n    {init}", False),
}


@pytest.mark.parametrize(("batch", "kind", "closed"), BATCHES.values(), ids=BATCHES.keys())
def test_whether_a_loader_could_pin_what_a_collate_function_makes(batch: str, kind: str, closed: bool) -> None:
    init = "def __init__(self, items): self.items = items"
    making = f"import elsewhere\n{kind.format(init=init)}\ndef collate(items):\n    return {batch}\n"
    loader = one_loader(making + "loader = DataLoader(images, collate_fn=collate)")
    assert loader.cannot_pin is closed


PINS = {
    "not said": ("DataLoader(images)", Known.NO),
    "said": ("DataLoader(images, pin_memory=True)", Known.YES),
    "denied": ("DataLoader(images, pin_memory=False)", Known.NO),
    "an option": ("DataLoader(images, pin_memory=args.pin)", Known.UNKNOWN),
}


@pytest.mark.parametrize(("making", "pins"), PINS.values(), ids=PINS.keys())
def test_pinning(making: str, pins: Known) -> None:
    assert one_loader(f"loader = {making}").pins is pins


DATASETS = {
    "a dataset of images": ("dataset = images", DatasetKind.MAP, Known.YES),
    "tensors": ("dataset = TensorDataset(torch.zeros(3, 8), torch.zeros(3))", DatasetKind.IN_MEMORY, Known.NO),
    "a list": ("dataset = [1, 2, 3]", DatasetKind.IN_MEMORY, Known.NO),
    "a dataset of the project that computes": (
        """
        from PIL import Image
        class Pictures(Dataset):
            def __getitem__(self, index):
                return transforms.ToTensor()(Image.open(self.paths[index])), 0
        dataset = Pictures()
        """,
        DatasetKind.MAP,
        Known.YES,
    ),
    "a dataset of the project that only looks up": (
        """
        class Rows(Dataset):
            def __init__(self, rows, labels):
                self.rows, self.labels = rows, labels
            def __getitem__(self, index):
                return self.rows[index], self.labels[index]
        dataset = Rows(torch.zeros(3, 8), torch.zeros(3))
        """,
        DatasetKind.MAP,
        Known.NO,
    ),
    "an iterable dataset": (
        """
        class Stream(IterableDataset):
            def __iter__(self):
                for line in open("data.txt"):
                    yield torch.tensor(float(line)), 0
        dataset = Stream()
        """,
        DatasetKind.ITERABLE,
        Known.YES,
    ),
    "a stream of what others make": (
        """
        class Stream(IterableDataset):
            def __init__(self, queue):
                self.queue = queue
            def __iter__(self):
                while True:
                    yield self.queue.get(timeout=1)
        dataset = Stream(queue.Queue())
        """,
        DatasetKind.ITERABLE,
        Known.NO,
    ),
    "batches of what others make": (
        """
        class Stream(IterableDataset):
            def __init__(self, incoming_queue):
                self.incoming_queue = incoming_queue
            def receive(self):
                return self.incoming_queue.get_nowait()
            def __iter__(self):
                while True:
                    yield self.receive()
        class Batches(IterableDataset):
            def __init__(self, samples):
                self.samples = samples
            def __iter__(self):
                batch = []
                for sample in self.samples:
                    batch.append(sample)
                    if len(batch) == 8:
                        yield batch
                        batch = []
        dataset = Batches(Stream(queue.Queue()))
        """,
        DatasetKind.ITERABLE,
        Known.NO,
    ),
    "a stream that fills a queue": (
        """
        class Stream(IterableDataset):
            def __iter__(self):
                for line in open("data.txt"):
                    self.queue.put(line)
                    yield torch.tensor(float(line)), 0
        dataset = Stream()
        """,
        DatasetKind.ITERABLE,
        Known.YES,
    ),
    "a part of tensors": (
        "dataset, _ = torch.utils.data.random_split(TensorDataset(torch.zeros(3, 8)), [2, 1])",
        DatasetKind.IN_MEMORY,
        Known.NO,
    ),
    "a part of images": ("dataset = torch.utils.data.Subset(images, range(9))", DatasetKind.MAP, Known.YES),
}


@pytest.mark.parametrize(("making", "kind", "works"), DATASETS.values(), ids=DATASETS.keys())
def test_datasets(making: str, kind: DatasetKind, works: Known) -> None:
    loader = one_loader(program({"x.py": making})["x.py"] + "loader = DataLoader(dataset, batch_size=2)")
    assert loader.works_per_item is works
    assert loader.dataset_kind is kind or (kind is DatasetKind.IN_MEMORY and loader.works_per_item is Known.NO)


USES = {
    "trained with in each epoch": (TAIL, {(Region.TRAINING, True)}),
    "trained with once": (
        "for x, y in loader:\n    model(x.cuda()).mean().backward()\n    optimizer.step()\n",
        {(Region.TRAINING, False)},
    ),
    "evaluated": (
        "with torch.no_grad():\n    for x, y in loader:\n        print(model(x.cuda()).mean().item())\n",
        {(Region.EVALUATION, False)},
    ),
    "evaluated in each epoch beside another": (
        "other = DataLoader(images)\nfor epoch in range(3):\n    for x, y in other:\n"
        "        model(x.cuda()).mean().backward()\n        optimizer.step()\n"
        "    with torch.no_grad():\n        for x, y in loader:\n            print(model(x.cuda()).mean().item())\n",
        {(Region.EVALUATION, True)},
    ),
    "through a progress bar and enumerate": (
        "from tqdm import tqdm\nfor epoch in range(3):\n    for step, (x, y) in enumerate(tqdm(loader)):\n"
        "        model(x.cuda()).mean().backward()\n        optimizer.step()\n",
        {(Region.TRAINING, True)},
    ),
    "by hand in steps": (
        "batches = iter(loader)\nfor step in range(100):\n    x, y = next(batches)\n"
        "    model(x.cuda()).mean().backward()\n    optimizer.step()\n",
        {(Region.TRAINING, False)},
    ),
    "through itertools.cycle": (
        "import itertools\nfor step, (x, y) in zip(range(100), itertools.cycle(loader)):\n"
        "    model(x.cuda()).mean().backward()\n    optimizer.step()\n",
        {(Region.TRAINING, False)},
    ),
    "through a function of the project": (
        "def train(data):\n    for x, y in data:\n        model(x.cuda()).mean().backward()\n        optimizer.step()\n"
        "for epoch in range(3):\n    train(loader)\n",
        {(Region.TRAINING, True)},
    ),
    "through an attribute": (
        "class Trainer:\n    def __init__(self, data):\n        self.data = data\n    def fit(self):\n"
        "        for epoch in range(3):\n            for x, y in self.data:\n"
        "                model(x.cuda()).mean().backward()\n                optimizer.step()\nTrainer(loader).fit()\n",
        {(Region.TRAINING, True)},
    ),
    "through a dict": (
        "both = {'train': loader}\nfor epoch in range(3):\n    for x, y in both['train']:\n"
        "        model(x.cuda()).mean().backward()\n        optimizer.step()\n",
        {(Region.TRAINING, True)},
    ),
    "through a generator without end": (
        "def forever(data):\n    while True:\n        for batch in data:\n            yield batch\n"
        "batches = forever(loader)\nfor step in range(100):\n    x, y = next(batches)\n"
        "    model(x.cuda()).mean().backward()\n    optimizer.step()\n",
        {(Region.TRAINING, True)},
    ),
    "never": ("print('nothing')\n", set()),
}


@pytest.mark.parametrize(("tail", "uses"), USES.values(), ids=USES.keys())
def test_uses(tail: str, uses: set[tuple[Region, bool]]) -> None:
    found = [loader for loader in loaders("loader = DataLoader(images)", tail) if loader.name == "loader"]
    assert len(found) == 1
    assert {(use.region, use.restarts) for use in found[0].uses} == uses


def test_a_use_names_the_epoch_and_the_loader() -> None:
    use = one_loader("loader = DataLoader(images)").epoch_use
    assert use is not None
    assert (use.epoch_name, use.name) == ("epoch", "loader")


TRANSFERS = {
    "to": ('x.to("cuda")', Place.DEVICE, Known.NO),
    "cuda": ("x.cuda()", Place.DEVICE, Known.NO),
    "non-blocking": ('x.to("cuda", non_blocking=True)', Place.DEVICE, Known.YES),
    "cuda non-blocking": ("x.cuda(non_blocking=True)", Place.DEVICE, Known.YES),
    "an option": ("x.cuda(non_blocking=args.pin)", Place.DEVICE, Known.UNKNOWN),
    "by keyword": ('x.to(device="cuda")', Place.DEVICE, Known.NO),
    "with a dtype": ('x.to("cuda", torch.float16)', Place.DEVICE, Known.NO),
}


@pytest.mark.parametrize(("move", "target", "non_blocking"), TRANSFERS.values(), ids=TRANSFERS.keys())
def test_transfers_of_a_batch(move: str, target: Place, non_blocking: Known) -> None:
    tail = f"for x, y in loader:\n    model({move}).mean().backward()\n    optimizer.step()\n"
    loader = one_loader("loader = DataLoader(images, pin_memory=True)", tail)
    (transfer,) = loader.transfers
    assert (transfer.target, transfer.non_blocking, transfer.text) == (target, non_blocking, move)
    assert transfer.value.pinned
    assert transfer.context.hot


NO_TRANSFERS = {
    "a dtype alone": "x.to(torch.float16)",
    "another tensor's device, where it already is": "x.half().float()",
    "a view": "x.view(-1).contiguous()",
}


@pytest.mark.parametrize("move", NO_TRANSFERS.values(), ids=NO_TRANSFERS.keys())
def test_conversions_are_no_transfers(move: str) -> None:
    tail = f"for x, y in loader:\n    x = {move}\n    model(x).mean().backward()\n    optimizer.step()\n"
    assert not one_loader("loader = DataLoader(images)", tail).transfers


def test_a_batch_that_is_already_placed_is_known_to_be() -> None:
    tail = """
def on_device(data):
    for x, y in data:
        yield x.cuda(), y.cuda()

for x, y in on_device(loader):
    x = x.to("cuda")
    model(x).mean().backward()
    optimizer.step()
"""
    project = analyze({"train.py": HEAD + "loader = DataLoader(images)\n" + tail})
    again = [transfer for transfer in project.transfers if transfer.text == 'x.to("cuda")']
    assert all(transfer.value.place is Place.DEVICE for transfer in again)


# --------------------------------------------------------------------------------------------------------- samplers

DISTRIBUTED = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
model = DistributedDataParallel(model)
"""


def distributed(making: str, tail: str = TAIL) -> Project:
    return analyze({"train.py": HEAD + DISTRIBUTED + program({"x.py": making})["x.py"] + tail})


SAMPLERS = {
    "given by name": "sampler = DistributedSampler(images)\nloader = DataLoader(images, sampler=sampler)",
    "given at once": "loader = DataLoader(images, sampler=DistributedSampler(images))",
    "inside a batch sampler": """
        sampler = DistributedSampler(images)
        loader = DataLoader(images, batch_sampler=BatchSampler(sampler, 32, drop_last=True))
        """,
    "None unless distributed": """
        sampler = DistributedSampler(images) if dist.is_initialized() else None
        loader = DataLoader(images, sampler=sampler, shuffle=sampler is None)
        """,
    "one of two by an if": """
        if dist.get_world_size() > 1:
            sampler = DistributedSampler(images)
        else:
            sampler = RandomSampler(images)
        loader = DataLoader(images, sampler=sampler)
        """,
    "by a factory": """
        def make(dataset):
            sampler = DistributedSampler(dataset)
            return DataLoader(dataset, sampler=sampler), sampler
        loader, sampler = make(images)
        """,
    "by a subclass of the project": """
        class Mine(DistributedSampler):
            pass
        loader = DataLoader(images, sampler=Mine(images))
        """,
    "by settings": 'loader = DataLoader(images, **{"sampler": DistributedSampler(images)})',
}


@pytest.mark.parametrize("making", SAMPLERS.values(), ids=SAMPLERS.keys())
def test_a_sampler_that_shards_is_found(making: str) -> None:
    (loader,) = distributed(making).loaders
    assert loader.sampler is not None
    assert loader.sampler.shards


def test_a_random_sampler_does_not_shard() -> None:
    (loader,) = distributed("loader = DataLoader(images, sampler=RandomSampler(images))").loaders
    assert loader.sampler is None or not loader.sampler.shards


SET_EPOCH = {
    "in the epoch loop": ("sampler.set_epoch(epoch)", True),
    "by way of the loader": ("loader.sampler.set_epoch(epoch)", True),
    "by a helper": ("begin(sampler, epoch)", True),
    "under a flag": ("if dist.is_initialized(): sampler.set_epoch(epoch)", True),
    "by a guard on the type": (
        "if isinstance(loader.sampler, DistributedSampler): loader.sampler.set_epoch(epoch)",
        True,
    ),
    "never": ("print(epoch)", False),
}


@pytest.mark.parametrize(("call", "sets"), SET_EPOCH.values(), ids=SET_EPOCH.keys())
def test_set_epoch_by_any_route(call: str, sets: bool) -> None:
    making = """
        def begin(sampler, epoch):
            sampler.set_epoch(epoch)
        sampler = DistributedSampler(images)
        loader = DataLoader(images, sampler=sampler)
        """
    tail = TAIL.replace("    for x, y", f"    {call}\n    for x, y")
    (sampler,) = shards_of(distributed(making, tail))
    assert sampler.sets_epoch is sets


def shards_of(project: Project) -> list[Sampler]:
    return [sampler for sampler in project.samplers if sampler.shards]


# ------------------------------------------------------------------------------------------------------- step loops

NO_SYNC = {
    "no_sync as a context": """
        with model.no_sync() if step % 4 else contextlib.nullcontext():
            model(x.cuda()).mean().backward()
        """,
    "no_sync in a branch": """
        if (step + 1) % 4 != 0:
            with model.no_sync():
                model(x.cuda()).mean().backward()
        else:
            model(x.cuda()).mean().backward()
        """,
    "a context kept in a variable": """
        context = model.no_sync if step % 4 else contextlib.nullcontext
        with context():
            model(x.cuda()).mean().backward()
        """,
    "no_sync handed to a function": """
        context = contextlib.nullcontext if step % 4 == 3 else typing.cast(object, model.no_sync)
        with context():
            model(x.cuda()).mean().backward()
        """,
    "a toggle of require_backward_grad_sync": """
        model.require_backward_grad_sync = step % 4 == 3
        model(x.cuda()).mean().backward()
        """,
    "set_requires_gradient_sync of fully sharded modules": """
        model.set_requires_gradient_sync(step % 4 == 3)
        model(x.cuda()).mean().backward()
        """,
}


def accumulating(step: str) -> Project:
    body = program({"x.py": step})["x.py"].rstrip().replace("\n", "\n        ")
    tail = f"""
import contextlib, typing
for epoch in range(3):
    for step, (x, y) in enumerate(loader):
        {body}
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
"""
    return distributed("loader = DataLoader(images, sampler=DistributedSampler(images))", tail)


@pytest.mark.parametrize("step", NO_SYNC.values(), ids=NO_SYNC.keys())
def test_the_idioms_of_no_sync(step: str) -> None:
    (loop,) = accumulating(step).step_loops
    assert loop.accumulates
    assert loop.disables_sync


def test_accumulation_without_no_sync() -> None:
    (loop,) = accumulating("model(x.cuda()).mean().backward()").step_loops
    assert loop.accumulates
    assert not loop.disables_sync
    assert loop.model_wrapped == "torch.nn.parallel.DistributedDataParallel"
    assert loop.accumulation_site is not None


def test_one_step_for_each_backward_does_not_accumulate() -> None:
    (loop,) = distributed("loader = DataLoader(images)").step_loops
    assert not loop.accumulates
    assert len(loop.backwards) == 1
    assert len(loop.steps) == 1


# -------------------------------------------------------------------------------------------------------- tokenizers

TOKENIZERS = {
    "an auto tokenizer": (
        "from transformers import AutoTokenizer\ntok = AutoTokenizer.from_pretrained('gpt2')",
        "tok(text)",
    ),
    "encode": (
        "from transformers import GPT2Tokenizer\ntok = GPT2Tokenizer.from_pretrained('gpt2')",
        "tok.encode(text)",
    ),
    "sentencepiece": ("import sentencepiece as spm\ntok = spm.SentencePieceProcessor('m')", "tok.encode(text)"),
    "tiktoken": ("import tiktoken\ntok = tiktoken.get_encoding('gpt2')", "tok.encode(text)"),
}
WHERE = {
    "in __getitem__": ("item(self.texts[index])", Region.DATA),
    "behind a method": ("self.encode(self.texts[index])", Region.DATA),
}


@pytest.mark.parametrize("place", WHERE.values(), ids=WHERE.keys())
@pytest.mark.parametrize(("making", "call"), TOKENIZERS.values(), ids=TOKENIZERS.keys())
def test_tokenizers_are_found_where_they_run(making: str, call: str, place: tuple[str, Region]) -> None:
    text = f"""
{making}
def item(text):
    return torch.tensor({call})
class Texts(Dataset):
    def __init__(self, texts):
        self.texts = texts
    def encode(self, text):
        return torch.tensor({call})
    def __getitem__(self, index):
        return {place[0]}, 0
loader = DataLoader(Texts([]))
"""
    project = analyze({"train.py": HEAD + text + TAIL})
    assert {record.context.region for record in project.tokenizations} == {place[1]}
    assert len(project.tokenizations) == 1


def test_tokenizing_once_is_set_up() -> None:
    text = """
from transformers import AutoTokenizer
class Texts(Dataset):
    def __init__(self, texts):
        tok = AutoTokenizer.from_pretrained("gpt2")
        self.rows = [tok(text) for text in texts]
    def __getitem__(self, index):
        return torch.tensor(self.rows[index]), 0
loader = DataLoader(Texts([]))
"""
    project = analyze({"train.py": HEAD + text + TAIL})
    assert {record.context.region for record in project.tokenizations} <= {Region.SETUP}


def test_factories_that_the_configuration_names_make_loaders() -> None:
    text = HEAD + "from elsewhere import build\nloader = build(images)\n" + TAIL + "        print('step')\n"
    project = analyze({"train.py": text}, LinkOptions(loader_factories=("build",)))
    assert [report.context.hot for report in project.reports] == [True]


def test_a_step_loop_counts_its_steps_by_name() -> None:
    text = plain("""
        for step, (images, labels) in enumerate(train_loader):
            criterion(model(images.to(device)), labels.to(device)).backward()
            optimizer.step()
            print("step")
        """)
    (report,) = analyze({"train.py": text}).reports
    assert report.context.counter == "step"


def test_functions_that_the_configuration_names_run_per_step() -> None:
    text = "def advance(state, batch):\n    if state.debug:\n        return\n    print('step')\n"
    (report,) = analyze({"train.py": text}, LinkOptions(step_functions=("advance",))).reports
    assert report.context.hot
    assert not report.context.under(GuardKind.INTERVAL)


def test_a_factory_that_is_called_twice_on_one_line_makes_two_loaders() -> None:
    text = """
import torch
from torch.utils.data import DataLoader

def build(data, workers):
    return DataLoader(data, num_workers=workers)

def use(first, second):
    for batch in first:
        model(batch).sum().backward()
    for batch in second:
        model(batch)

use(build(torch.load("a.pt"), 0), build(torch.load("b.pt"), 4))
"""
    found = analyze({"train.py": text}).loaders
    assert sorted(loader.arguments.named["num_workers"].value for loader in found) == [0, 4]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("device", "feeds"),
    [
        ('"cuda"', Known.YES),
        ('"mps"', Known.NO),
        ('torch.device("mps" if torch.backends.mps.is_available() else "cpu")', Known.NO),
        ('torch.device("cuda" if torch.cuda.is_available() else "mps")', Known.YES),
    ],
)
def test_a_loader_feeds_cuda_only_where_its_batches_may_go_there(device: str, feeds: Known) -> None:
    text = f"""
import torch
from torch.utils.data import DataLoader

device = {device}
for batch in DataLoader(torch.load("data.pt")):
    model(batch.to(device)).sum().backward()
    optimizer.step()
"""
    (loader,) = analyze({"train.py": text}).loaders
    assert loader.feeds_cuda is feeds


SAMPLERS = {
    "made in the call": ("loader = DataLoader(images, sampler=RandomSampler(images))", "RandomSampler(images)", False),
    "a variable": ("order = RandomSampler(images)\nloader = DataLoader(images, sampler=order)", "order", False),
    "by position": ("order = RandomSampler(images)\nloader = DataLoader(images, 8, False, order)", "order", False),
    "a batch sampler": (
        "loader = DataLoader(images, batch_sampler=BatchSampler(RandomSampler(images), 8, True))",
        "BatchSampler(RandomSampler(images), 8, True)",
        False,
    ),
    "None unless the job is distributed": (
        """
        order = None
        if args.pin:
            order = DistributedSampler(images)
        loader = DataLoader(images, sampler=order)
        """,
        "order",
        True,
    ),
    "a conditional expression": (
        "order = DistributedSampler(images) if args.pin else None\nloader = DataLoader(images, sampler=order)",
        "order",
        True,
    ),
    "a parameter": (
        """
        def make(order=None):
            return DataLoader(images, sampler=order)
        loader = make(RandomSampler(images))
        """,
        "order",
        True,
    ),
    "none": ("loader = DataLoader(images)", "", False),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_sampler_argument_is_known_by_its_text_and_whether_it_may_be_none(name: str) -> None:
    making, text, may_be_none = SAMPLERS[name]
    loader = one_loader(making)
    assert (loader.sampler_text, loader.sampler_may_be_none) == (text, may_be_none)


FORKS = {
    "num_workers=2": Known.YES,
    "num_workers=0": Known.NO,
    "shuffle=True": Known.NO,
    "num_workers=count_from_elsewhere": Known.UNKNOWN,
    "num_workers=2, multiprocessing_context='spawn'": Known.UNKNOWN,
}


@pytest.mark.parametrize(("arguments", "forks"), FORKS.items(), ids=FORKS)
def test_what_workers_run_is_known_to_run_in_forked_ones(arguments: str, forks: Known) -> None:
    text = f"""
    import torch
    from torch.utils.data import DataLoader

    def collate(rows):
        return torch.tensor(rows)

    def start(worker):
        torch.cuda.set_device(worker)

    loader = DataLoader(rows, {arguments}, collate_fn=collate, worker_init_fn=start)
    """
    project = analyze(program({"train.py": text}))
    assert [loader.forks for loader in project.loaders] == [forks]
    contexts = [call.context for call in project.calls_of("torch.tensor", "torch.cuda.set_device")]
    assert [(context.frequency, context.region, context.forked) for context in contexts] == [
        (Frequency.PER_STEP, Region.COLLATE, forks),
        (Frequency.ONCE, Region.SETUP, forks),
    ]


def test_the_program_says_how_processes_start() -> None:
    text = "import torch.multiprocessing as mp\nmp.set_start_method('spawn')\n"
    assert [entry.chooses_start_method for entry in analyze({"train.py": text}).entries] == [True]


def test_what_an_iterable_dataset_does_for_each_item_and_what_it_does_once_in_a_pass() -> None:
    text = """
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    class Rows(IterableDataset):
        def __iter__(self):
            table = torch.tensor(self.rows)
            for row in table:
                yield torch.as_tensor(row)

    loader = DataLoader(Rows())
    """
    calls = analyze(program({"train.py": text})).calls_of("torch.tensor", "torch.as_tensor")
    assert {call.name: call.context.for_each_item for call in calls} == {"torch.tensor": False, "torch.as_tensor": True}


ARRAYS = {
    "[np.load(path), np.zeros(3)]": True,
    "[np.load(path).astype(np.float32) / 255.0 for path in paths]": True,
    "gathered": True,
    "[cv2.resize(cv2.imread(path), (8, 8)) for path in paths]": True,
    "list(map(np.asarray, rows))": True,
    "[np.mean(image), np.std(image)]": False,
    "[image[0], image[1]]": False,
    "[number for number in np.load(path)]": False,
    "rows": False,
}


@pytest.mark.parametrize(("argument", "whole"), ARRAYS.items(), ids=ARRAYS)
def test_a_list_of_arrays_is_told_from_one_of_numbers(argument: str, whole: bool) -> None:
    text = f"""
    import cv2
    import numpy as np
    import torch

    image = np.load("image.npy")
    gathered = []
    for path in paths:
        gathered.append(np.load(path))
    x = torch.tensor({argument})
    """
    (call,) = analyze(program({"train.py": text})).calls_of("torch.tensor")
    (value,) = call.arguments.positional
    items = value.items if isinstance(value, Tuple) else (value.item,) if isinstance(value, Listing) else ()
    assert (bool(items) and all(isinstance(item, Host) and item.whole for item in items)) is whole
    assert call.numpy == "np"


ITERABLE = """
class Rows(IterableDataset):
    def __init__(self, source=None):
        self.source = source

{body}

loader = DataLoader({made}, num_workers=2)
"""
REPEATS = {
    "a file": ("for row in open('rows.csv'):\n    yield row", "Rows()", Known.YES),
    "a file that is closed again": ("with open('a') as f:\n    for row in f:\n        yield row", "Rows()", Known.YES),
    "a list": ("yield from self.source", "Rows([1, 2, 3])", Known.YES),
    "for ever": ("while True:\n    for row in self.source:\n        yield row", "Rows([1, 2])", Known.YES),
    "a copy of a list": ("rows = list(self.source)\nfor row in rows:\n    yield row", "Rows([1])", Known.YES),
    "a range": ("for i in range(10):\n    yield i", "Rows()", Known.YES),
    "a range of random numbers": ("for _ in range(10):\n    yield torch.rand(3)", "Rows()", Known.UNKNOWN),
    "nobody knows what": ("yield from self.source", "Rows(elsewhere())", Known.UNKNOWN),
    "a queue": ("for row in iter(self.source.get, None):\n    yield row", "Rows(elsewhere())", Known.UNKNOWN),
    "by worker": (
        "info = get_worker_info()\nfor row in self.source[info.id :: info.num_workers]:\n    yield row",
        "Rows([1, 2])",
        Known.NO,
    ),
    "by rank": ("for row in self.source[torch.distributed.get_rank() :: 2]:\n    yield row", "Rows([1])", Known.NO),
}


@pytest.mark.parametrize(("body", "made", "expected"), REPEATS.values(), ids=REPEATS.keys())
def test_whether_each_worker_gets_all_of_an_iterable_dataset(body: str, made: str, expected: Known) -> None:
    method = "    def __iter__(self):\n" + "".join(f"        {line}\n" for line in body.splitlines())
    assert one_loader(ITERABLE.format(body=method, made=made)).repeats is expected


FRAME_ACCESSES = {
    "a row by its number": ("row = self.table.iloc[index]", [("iloc", True)]),
    "a cell by its label": ("cell = self.table.loc[index, 'x']", [("loc", True)]),
    "a column that was made": ("self.column.apply(abs)", [("apply", True)]),
    "rows one by one": ("for _, row in self.table.iterrows(): pass", [("iterrows", True)]),
    "nobody knows what": ("row = self.other.iloc[index]", [("iloc", False)]),
    "rows of nobody knows what": ("for _, row in self.other.iterrows(): pass", [("iterrows", False)]),
    "loc of nobody knows what": ("row = self.other.loc[index]", []),
    "apply of nobody knows what": ("self.other.apply(abs)", []),
    "a tensor called loc": ("self.loc[index]", []),
    "the array of a table": ("self.table.to_numpy()[index]", []),
}


@pytest.mark.parametrize(("statement", "expected"), FRAME_ACCESSES.values(), ids=FRAME_ACCESSES.keys())
def test_lookups_in_tables_of_pandas_are_known(statement: str, expected: list[tuple[str, bool]]) -> None:
    making = f"""
import pandas as pd


class Table(Dataset):
    def __init__(self, path, other):
        self.table = pd.read_csv(path).dropna()
        self.column = self.table[self.table["split"] == "train"]["x"]
        self.other = other
        self.loc = torch.zeros(3)

    def __len__(self):
        return 3

    def __getitem__(self, index):
        {statement}
        return 0


loader = DataLoader(Table("table.csv", elsewhere()))
"""
    found = analyze({"train.py": HEAD + making + TAIL}).frame_accesses
    assert [(one.how, one.proved) for one in found] == expected
    assert all(one.context.for_each_item for one in found)


OPENED = {
    "by the index": ("x = torch.load(self.paths[index])", True),
    "by a name made of the index": ("x = torch.load(f'{index}.pt')", True),
    "by what was looked up before": ("path, _ = self.paths[index]\n        x = torch.load(path)", True),
    "in a helper": ("x = self.read(self.paths[index])", True),
    "the same for all": ("x = torch.load(self.paths)", False),
    "bytes that were read": ("x = torch.load(io.BytesIO(self.paths[index]))", False),
    "a file that was opened": (
        "with open(self.paths[index], 'rb') as opened:\n            x = torch.load(opened)",
        False,
    ),
    "kept": ("if index not in self.kept:\n            self.kept[index] = torch.load(self.paths[index])", False),
}


@pytest.mark.parametrize(("statements", "varies"), OPENED.values(), ids=OPENED.keys())
def test_whether_a_file_is_opened_by_the_index_of_the_item(statements: str, varies: bool) -> None:
    making = f"""
import io


class Files(Dataset):
    def __init__(self, paths):
        self.paths, self.kept = paths, {{}}

    def __len__(self):
        return 3

    def read(self, path):
        return torch.load(path)

    def __getitem__(self, index):
        {statements}
        return 0


loader = DataLoader(Files(elsewhere()))
"""
    (call,) = analyze({"train.py": HEAD + making + TAIL}).calls_of("torch.load")
    assert call.varies_by_item is varies


HELD = {
    "dictionaries of a file": ("self.rows = json.load(open(path))", ("rows",)),
    "lines": ("self.rows = open(path).readlines()", ("rows",)),
    "rows of a table": ("self.rows = list(csv.DictReader(open(path)))", ("rows",)),
    "text that is appended": ("self.rows = []\n        for line in open(path): self.rows.append('a')", ("rows",)),
    "tensors": ("self.rows = [torch.zeros(3) for _ in range(9)]", ()),
    "an array": ("self.rows = np.load(path)", ()),
    "a few": ("self.rows = ['a', 'b']", ()),
    "nobody knows what": ("self.rows = elsewhere(path)", ()),
    "objects that no index asks for": ("self.other = json.load(open(path))\n        self.rows = torch.zeros(3)", ()),
}


@pytest.mark.parametrize(("statements", "expected"), HELD.values(), ids=HELD.keys())
def test_lists_of_objects_that_items_are_looked_up_in(statements: str, expected: tuple[str, ...]) -> None:
    making = f"""
import csv
import json
import numpy as np


class Rows(Dataset):
    def __init__(self, path):
        {statements}

    def __len__(self):
        return 9

    def __getitem__(self, index):
        return self.rows[index]


loader = DataLoader(Rows("rows"), num_workers=2)
"""
    assert one_loader(making).object_lists == expected


def test_what_a_loader_class_of_the_project_does_not_take_cannot_be_added_to_its_call() -> None:
    text = """
from torch.utils import data


class DataLoader(data.DataLoader):
    def __init__(self, dataset, batch_size=1):
        super().__init__(dataset, batch_size=batch_size, num_workers=0)


loader = DataLoader(read("train.txt"), batch_size=8)
"""
    (loader,) = analyze({"train.py": text}).loaders
    assert loader.arguments.constant("num_workers") == 0 and loader.arguments.spread
