from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.semantics.duties import Duty
from trainlint.semantics.project import Loader, Project
from trainlint.semantics.vocabulary import GuardKind, Known


class IterableWithoutSharding(Rule):
    """Every worker, or every rank, goes through all of an iterable dataset.

    ## What it does
    Reports loaders over an `IterableDataset` of the project that asks neither for its worker nor for its rank, where
    the loader has workers, or where several ranks train on a share of the data each.

    ## Why it is slow
    A sampler deals out the indices of a map-style dataset, but nobody deals out what an iterable dataset yields: each
    worker iterates a copy of it, and each rank does. With four workers every sample comes four times in what counts as
    one epoch. The epoch takes as much longer, and several times the same sample makes for a worse batch.

    ## When it is fine
    Datasets that split by `get_worker_info()` and by the rank, or that a `worker_init_fn` splits; libraries that split
    by themselves (`datasets` in streaming mode, webdataset, MosaicML streaming); samples that are made at random, of
    which each process makes its own; Accelerate and the Trainer of transformers deal out among ranks.

    ## Example
    ```python
    class Lines(IterableDataset):
        def __iter__(self):
            for line in open(self.path):
                yield parse(line)

    loader = DataLoader(Lines("corpus.txt"), batch_size=64, num_workers=4)
    ```

    ## Use instead
    ```python
    class Lines(IterableDataset):
        def __iter__(self):
            worker = get_worker_info()
            workers, worker_id = (worker.num_workers, worker.id) if worker else (1, 0)
            part = self.rank * workers + worker_id
            for line in itertools.islice(open(self.path), part, None, self.world_size * workers):
                yield parse(line)
    ```

    ## Fix safety
    Advice without edits: how the data is best split depends on how it is stored. Files are better dealt out whole than
    line by line.

    ## How the probe confirms it
    Not at all: what is measured does not tell one worker's samples from another's.

    ## References
    - Every rank its own shard is the first check with several GPUs, before any tuning (articles 000, 003).
    - PyTorch, IterableDataset: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset
    """

    code, name, family = "TL120", "iterable-without-sharding", Family.DATA
    fix_class = Applicability.DISPLAY
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, IterableDataset


            class Lines(IterableDataset):
                def __init__(self, path):
                    self.path = path

                def __iter__(self):
                    with open(self.path) as file:
                        for line in file:
                            yield torch.tensor([float(number) for number in line.split(",")])


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(Lines("rows.csv"), batch_size=64, num_workers=4, pin_memory=True)  # expect: TL120
            for epoch in range(10):
                for rows in loader:
                    loss = model(rows.cuda(non_blocking=True)).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="each of the four workers reads the whole file",
        ),
        invalid(
            """
            from glob import glob

            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from records import Records

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            dataset = Records(sorted(glob("data/*.jsonl")), shuffle=True)
            loader = DataLoader(dataset, batch_size=64, num_workers=8)  # expect: TL120
            for rows in loader:
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="in another file: a shuffled order is another order of all of the data",
            others={
                "records.py": """
                import json
                import random

                import torch
                from torch.utils.data import IterableDataset


                class Records(IterableDataset):
                    def __init__(self, paths, shuffle=False):
                        self.paths = paths
                        self.shuffle = shuffle

                    def read(self, path):
                        with open(path) as file:
                            for line in file:
                                yield torch.tensor(json.loads(line)["values"])

                    def __iter__(self):
                        paths = list(self.paths)
                        if self.shuffle:
                            random.shuffle(paths)
                        for path in paths:
                            yield from self.read(path)
                """
            },
        ),
        invalid(
            """
            import os

            import numpy as np
            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP
            from torch.utils.data import DataLoader, IterableDataset


            class Tokens(IterableDataset):
                def __init__(self, path, length):
                    self.tokens = np.memmap(path, dtype=np.uint16, mode="r")
                    self.length = length

                def __iter__(self):
                    for start in range(0, len(self.tokens) - self.length, self.length):
                        yield torch.from_numpy(self.tokens[start : start + self.length].astype(np.int64))


            dist.init_process_group("nccl")
            rank = int(os.environ["LOCAL_RANK"])
            model = DDP(nn.Embedding(32000, 64).cuda(rank), device_ids=[rank])
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(Tokens("tokens.bin", 1024), batch_size=8)  # expect: TL120
            for ids in loader:
                loss = model(ids.cuda(rank)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="without workers, but every rank trains on the same tokens",
        ),
        invalid(
            """
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, IterableDataset


            class Clicks(IterableDataset):
                def __init__(self, rows):
                    self.rows = list(rows)

                def __iter__(self):
                    return iter(self.rows)


            class Ranking(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = nn.Linear(32, 1)

                def training_step(self, batch, batch_idx):
                    return self.model(batch).square().mean()

                def train_dataloader(self):
                    return DataLoader(Clicks(torch.load("clicks.pt")), batch_size=256, num_workers=2)  # expect: TL120

                def configure_optimizers(self):
                    return torch.optim.Adam(self.parameters())


            L.Trainer(accelerator="gpu", max_epochs=5).fit(Ranking())
            """,
            because="Lightning does not deal out among the workers",
        ),
        valid(
            """
            import itertools

            import torch
            from torch import nn
            from torch.utils.data import DataLoader, IterableDataset, get_worker_info


            class Lines(IterableDataset):
                def __init__(self, path):
                    self.path = path

                def __iter__(self):
                    info = get_worker_info()
                    start, step = (info.id, info.num_workers) if info is not None else (0, 1)
                    with open(self.path) as file:
                        for line in itertools.islice(file, start, None, step):
                            yield torch.tensor([float(number) for number in line.split(",")])


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for rows in DataLoader(Lines("rows.csv"), batch_size=64, num_workers=4, pin_memory=True):
                loss = model(rows.cuda(non_blocking=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="each worker takes its lines",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from lines import Lines

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for rows in DataLoader(Lines(["a.csv", "b.csv", "c.csv", "d.csv"]), batch_size=64, num_workers=2):
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the files are dealt out by a helper, two files away",
            others={
                "lines.py": """
                import torch
                from torch.utils.data import IterableDataset

                from dealing import own_part


                class Lines(IterableDataset):
                    def __init__(self, paths):
                        self.paths = paths

                    def __iter__(self):
                        for path in own_part(self.paths):
                            with open(path) as file:
                                for line in file:
                                    yield torch.tensor([float(number) for number in line.split(",")])
                """,
                "dealing.py": """
                from torch.utils.data import get_worker_info


                def own_part(items):
                    info = get_worker_info()
                    return items if info is None else items[info.id :: info.num_workers]
                """,
            },
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, IterableDataset, get_worker_info


            class Numbers(IterableDataset):
                def __init__(self, start, end):
                    self.start, self.end = start, end

                def __iter__(self):
                    for number in range(self.start, self.end):
                        yield torch.full((32,), float(number))


            def split(worker_id):
                info = get_worker_info()
                share = (info.dataset.end - info.dataset.start) // info.num_workers
                info.dataset.start += worker_id * share
                info.dataset.end = info.dataset.start + share


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for rows in DataLoader(Numbers(0, 4096), batch_size=64, num_workers=4, worker_init_fn=split):
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="worker_init_fn splits the range",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, IterableDataset


            class Noise(IterableDataset):
                def __init__(self, size):
                    self.size = size

                def __iter__(self):
                    for _ in range(self.size):
                        yield torch.randn(32)


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for rows in DataLoader(Noise(100_000), batch_size=64, num_workers=4):
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="samples made at random, other ones in each worker",
        ),
        valid(
            """
            import torch
            from datasets import load_dataset
            from torch import nn
            from torch.utils.data import DataLoader, IterableDataset
            from transformers import AutoTokenizer


            class Packed(IterableDataset):
                def __init__(self, stream, tokenizer, length):
                    self.stream = stream
                    self.tokenizer = tokenizer
                    self.length = length

                def __iter__(self):
                    buffer = []
                    for row in self.stream:
                        buffer += self.tokenizer.encode(row["text"])
                        while len(buffer) >= self.length:
                            yield torch.tensor(buffer[: self.length])
                            buffer = buffer[self.length :]


            stream = load_dataset("allenai/c4", "en", split="train", streaming=True)
            packed = Packed(stream, AutoTokenizer.from_pretrained("gpt2"), 1024)
            model = nn.Embedding(50257, 64).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for ids in DataLoader(packed, batch_size=8, num_workers=4):
                loss = model(ids.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the stream of `datasets` splits by worker itself",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, IterableDataset


            class Lines(IterableDataset):
                def __init__(self, path):
                    self.path = path

                def __iter__(self):
                    with open(self.path) as file:
                        for line in file:
                            yield torch.tensor([float(number) for number in line.split(",")])


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for rows in DataLoader(Lines("rows.csv"), batch_size=64):
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="one process goes through it, and there is no other",
        ),
        valid(
            """
            import os

            import torch
            import torch.distributed as dist
            from torch import nn
            from torch.nn.parallel import DistributedDataParallel as DDP
            from torch.utils.data import DataLoader, IterableDataset


            class Lines(IterableDataset):
                def __init__(self, paths):
                    self.paths = paths

                def __iter__(self):
                    for path in self.paths:
                        with open(path) as file:
                            for line in file:
                                yield torch.tensor([float(number) for number in line.split(",")])


            dist.init_process_group("nccl")
            rank, ranks = dist.get_rank(), dist.get_world_size()
            files = sorted(os.listdir("data"))
            model = DDP(nn.Linear(32, 1).cuda(rank), device_ids=[rank])
            optimizer = torch.optim.AdamW(model.parameters())
            for rows in DataLoader(Lines(files[rank::ranks]), batch_size=64):
                loss = model(rows.cuda(rank)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="each rank is given its files",
        ),
        valid(
            """
            import torch
            from accelerate import Accelerator
            from torch import nn
            from torch.utils.data import DataLoader, IterableDataset


            class Lines(IterableDataset):
                def __init__(self, path):
                    self.path = path

                def __iter__(self):
                    with open(self.path) as file:
                        for line in file:
                            yield torch.tensor([float(number) for number in line.split(",")])


            accelerator = Accelerator()
            model = nn.Linear(32, 1)
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(Lines("rows.csv"), batch_size=64)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for rows in loader:
                accelerator.backward(model(rows).square().mean())
                optimizer.step()
                optimizer.zero_grad()
            """,
            because="Accelerate deals out among the ranks",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loader in project.loaders:
            who = _who_repeats(loader)
            if who and loader.uses and loader.repeats is Known.YES and not loader.context.under(GuardKind.DEBUG):
                yield self.finding(
                    loader,
                    f"{quote(loader.text)} yields every sample once per {who}, since the dataset does not split",
                    help="Split in `__iter__`: by `get_worker_info()`, and by the rank where there are several",
                    confidence=loader.workers_certainty,
                    related=tuple(RelatedSite(use.site, "the loop that gets the samples") for use in loader.uses),
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            "In `__iter__`, take every n-th file or item: by `get_worker_info()`, and by the rank if there are several",
        )


def _who_repeats(loader: Loader) -> str:
    """Of which there are several, each of which goes through all of the dataset; empty where there is none."""
    entry = loader.context.entry
    several_workers = (loader.workers or 0) > 1
    if several_workers and loader.arguments.absent("worker_init_fn"):
        return "worker"
    share_of_the_data = entry.distributed is Known.YES and entry.data_parallel is Known.YES
    dealt_out = entry.spared(Duty.SPLIT_STREAMS) or loader.spared(Duty.SPLIT_STREAMS) or loader.sharded_dataset
    return "rank" if share_of_the_data and not dealt_out else ""
