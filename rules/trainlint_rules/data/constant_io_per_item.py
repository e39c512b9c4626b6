from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_stacks
from trainlint.probe.verdict import Verdict
from trainlint.semantics.library import FILE_READERS
from trainlint.semantics.project import Call, Project
from trainlint.semantics.vocabulary import Region

_KEPT_OPEN = frozenset(
    {"h5py.File", "lmdb.open", "sqlite3.connect", "zipfile.ZipFile", "tarfile.open", "open", "pathlib.Path.open"}
)
"""What gives a handle to read from, rather than the content."""


class ConstantIoPerItem(Rule):
    """A dataset opens or parses the same file again for every item.

    ## What it does
    Reports calls that open or read a file, such as `open`, `h5py.File`, `pd.read_csv`, `np.load` or `torch.load`, in
    code that runs for each item or batch of a dataset, where the path is the same each time.

    ## Why it is slow
    Every sample pays for what one opening would do: system calls, on network storage a round trip each, and for formats
    that are parsed, all of the file for a single row of it.

    ## When it is fine
    A file for each item. A handle that is opened at the first item and kept, which is how a worker gets its own: HDF5
    and LMDB handles must not be shared with the processes that a loader forks. Results that are kept.

    ## Example
    ```python
    def __getitem__(self, index):
        with h5py.File(self.path) as file:
            return file["images"][index]
    ```

    ## Use instead
    ```python
    def __getitem__(self, index):
        if self.file is None:  # once in each worker
            self.file = h5py.File(self.path)
        return self.file["images"][index]
    ```

    ## Fix safety
    Advice without edits: how the content is kept, and whether memory suffices for it, is the author's choice.

    ## How the probe confirms it
    By stack samples under this line, in the loader's workers or in the training thread, together with the share of the
    step that waits for data.

    ## References
    - Sequential reads instead of many small ones: lmdb, tfrecord, webdataset (article 003).
    - PyTorch, HDF5 files and workers: open the file at the first item, rather than in the constructor:
      https://github.com/pytorch/pytorch/issues/11929
    """

    code, name, family = "TL111", "constant-io-per-item", Family.DATA
    fix_class = Applicability.DISPLAY
    confirmed_by = "stack samples under this line; data wait share"
    examples = (
        invalid(
            """
            import h5py
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Images(Dataset):
                def __init__(self, path):
                    self.path = path
                    with h5py.File(path) as file:
                        self.length = len(file["images"])

                def __len__(self):
                    return self.length

                def __getitem__(self, index):
                    with h5py.File(self.path, "r") as file:  # expect: TL111
                        return torch.from_numpy(file["images"][index])


            loader = DataLoader(Images("images.h5"), batch_size=64, shuffle=True, num_workers=4)
            model = nn.Linear(784, 10).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the file is opened again for each image",
        ),
        invalid(
            """
            import torch
            from rows import read_row
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Rows(Dataset):
                def __init__(self, path, length):
                    self.path, self.length = path, length

                def __len__(self):
                    return self.length

                def __getitem__(self, index):
                    return torch.tensor(read_row(self.path, index))


            loader = DataLoader(Rows("rows.csv", 10_000), batch_size=64, shuffle=True, num_workers=4)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for rows in loader:
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a helper of another file parses all of the table for one row",
            others={
                "rows.py": """
                import pandas as pd


                def read_row(path, index):
                    table = pd.read_csv(path)  # expect: TL111
                    return table.values[index].tolist()
                """
            },
        ),
        invalid(
            """
            import json
            from pathlib import Path

            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Notes(Dataset):
                def __init__(self, root, length):
                    self.root, self.length = Path(root), length

                def __len__(self):
                    return self.length

                def __getitem__(self, index):
                    labels = json.loads((self.root / "labels.json").read_text())  # expect: TL111
                    with Path(self.root, "scale.txt").open() as file:  # expect: TL111
                        scale = float(file.read())
                    return torch.tensor(labels[index]) * scale


            loader = DataLoader(Notes("data", 10_000), batch_size=64, shuffle=True, num_workers=4)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for rows in loader:
                loss = model(rows.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a path of pathlib is read by its methods",
        ),
        valid(
            """
            import json
            from pathlib import Path

            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Notes(Dataset):
                def __init__(self, root, length):
                    self.root, self.length = Path(root), length

                def __len__(self):
                    return self.length

                def __getitem__(self, index):
                    row = json.loads((self.root / f"{index}.json").read_text())
                    with Path("log.txt").open("a") as file:
                        file.write(f"{index}\\n")
                    return torch.tensor(row)


            loader = DataLoader(Notes("data", 10_000), batch_size=64, shuffle=True, num_workers=4)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for rows in loader:
                loss = model(rows.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a file for each item, and a file that is written",
        ),
        invalid(
            """
            import os

            import numpy as np
            import torch
            from torch.utils.data import Dataset


            class Spectra(Dataset):
                def __init__(self, root, names):
                    self.root = root
                    self.names = names

                def __len__(self):
                    return len(self.names)

                def __getitem__(self, index):
                    spectrum = np.load(os.path.join(self.root, self.names[index]))
                    mean = np.load(os.path.join(self.root, "mean.npy"))  # expect: TL111
                    return torch.from_numpy(spectrum - mean)
            """,
            because="the mean is the same for all of them",
        ),
        invalid(
            """
            import json

            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def collate(rows):
                with open("labels.json") as file:  # expect: TL111
                    labels = json.load(file)
                return torch.stack([row["image"] for row in rows]), torch.tensor([labels[row["name"]] for row in rows])


            loader = DataLoader(torch.load("rows.pt"), batch_size=64, num_workers=4, collate_fn=collate)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="for each batch, in the collate function",
        ),
        valid(
            """
            import h5py
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Images(Dataset):
                def __init__(self, path, length):
                    self.path, self.length = path, length
                    self.file = None

                def __len__(self):
                    return self.length

                def __getitem__(self, index):
                    if self.file is None:
                        self.file = h5py.File(self.path, "r")
                    return torch.from_numpy(self.file["images"][index])


            loader = DataLoader(Images("images.h5", 60_000), batch_size=64, shuffle=True, num_workers=4)
            model = nn.Linear(784, 10).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="opened at the first item, once in each worker",
        ),
        valid(
            """
            import torch
            from PIL import Image
            from torch import nn
            from torch.utils.data import DataLoader, Dataset
            from torchvision import transforms


            class Images(Dataset):
                def __init__(self, root, names):
                    self.root, self.names = root, names
                    self.transform = transforms.ToTensor()

                def __len__(self):
                    return len(self.names)

                def __getitem__(self, index):
                    image = Image.open(f"{self.root}/{self.names[index]}.jpg").convert("RGB")
                    boxes = torch.load(f"{self.root}/boxes-{index:06d}.pt")
                    return self.transform(image), boxes


            loader = DataLoader(Images("train", open("names.txt").read().split()), batch_size=64, num_workers=4)
            model = nn.Sequential(nn.Flatten(), nn.LazyLinear(10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, boxes in loader:
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="each item has files of its own",
        ),
        valid(
            """
            from functools import lru_cache

            import pandas as pd
            import torch
            from torch.utils.data import Dataset


            @lru_cache
            def table(path):
                return pd.read_csv(path)


            class Rows(Dataset):
                def __init__(self, path, length):
                    self.path, self.length = path, length

                def __len__(self):
                    return self.length

                def __getitem__(self, index):
                    return torch.tensor(table(self.path).values[index])
            """,
            because="the table is kept by a cache",
        ),
        valid(
            """
            import torch
            from torch.utils.data import IterableDataset, get_worker_info


            class Lines(IterableDataset):
                def __init__(self, path):
                    self.path = path

                def __iter__(self):
                    worker = get_worker_info()
                    with open(self.path) as file:
                        for number, line in enumerate(file):
                            if worker is None or number % worker.num_workers == worker.id:
                                yield torch.tensor([float(part) for part in line.split()])
            """,
            because="once in a pass over all items",
        ),
        valid(
            """
            import bisect

            import numpy as np
            import torch
            from torch.utils.data import Dataset


            class Shards(Dataset):
                def __init__(self, paths, starts):
                    self.paths, self.starts = paths, starts
                    self.open_shard, self.rows = -1, None

                def __len__(self):
                    return self.starts[-1]

                def __getitem__(self, index):
                    shard = bisect.bisect_right(self.starts, index) - 1
                    if shard != self.open_shard:
                        self.rows = np.load(self.paths[shard])
                        self.open_shard = shard
                    return torch.from_numpy(self.rows[index - self.starts[shard]])
            """,
            because="another shard is read where the last one does not hold the item",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch.utils.data import Dataset


            class Tokens(Dataset):
                def __init__(self, path):
                    self.path = path
                    self.length = len(np.memmap(path, dtype=np.uint16, mode="r")) // 1024

                def __len__(self):
                    return self.length

                def __getitem__(self, index):
                    tokens = np.load(self.path, mmap_mode="r")
                    return torch.from_numpy(tokens[index * 1024 : (index + 1) * 1024].astype(np.int64))
            """,
            because="a memory map reads only what is asked of it",
        ),
        valid(
            """
            import torch
            from torch.utils.data import Dataset


            class Images(Dataset):
                def __init__(self, paths):
                    self.paths = paths
                    self.current = ""

                def choose(self, path):
                    self.current = path

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    self.choose(self.paths[index])
                    return torch.load(self.current)
            """,
            because="the path is set for each item",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls:
            reads = FILE_READERS.match(call.name) and call.same_each_time and call.context.for_each_item
            writes = call.name in _KEPT_OPEN and call.may_write
            if reads and _names_a_file(call) and not writes and not call.maps_memory:
                per = "batch" if call.context.region is Region.COLLATE else "sample"
                does = "opens" if call.name in _KEPT_OPEN else "reads"
                yield self.finding(
                    call,
                    f"{quote(call.text)} {does} the same file again for every {per}",
                    help="Open it once in each worker, at the first item, and keep it",
                    confidence=call.context.served,
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY, "Open the file at the first item and keep it, or read it once in the constructor"
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_stacks(evidence, finding.site)


def _names_a_file(call: Call) -> bool:
    of_a_path = call.name.startswith("pathlib.Path.")
    return of_a_path or bool(call.arguments.positional or call.arguments.named)
