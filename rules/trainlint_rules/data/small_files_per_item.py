from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_stacks
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Project
from trainlint.semantics.vocabulary import Confidence, Region

ONE_SAMPLE = frozenset(
    {
        "open",
        "pathlib.Path.open",
        "pathlib.Path.read_bytes",
        "pathlib.Path.read_text",
        "PIL.Image.open",
        "cv2.imread",
        "torchvision.io.read_image",
        "torchvision.io.read_file",
        "torchvision.io.decode_image",
        "numpy.load",
        "torch.load",
        "torchaudio.load",
        "soundfile.read",
        "librosa.load",
    }
)
"""What reads a file that usually holds a single sample; containers and volumes are read by others."""

OPENS = frozenset({"open", "pathlib.Path.open"})


class SmallFilesPerItem(Rule):
    """A dataset opens a file of its own for every sample.

    ## What it does
    Reports calls that read an image, a recording, an array or a text from a file, in a dataset's `__getitem__`, where
    the file's name follows from the index.

    ## Why it is slow
    Each sample costs an opening, a seek and a closing, in an order that shuffling makes random. Hard disks and network
    storage serve few of those a second, and object stores fewer, however high their throughput in sequence is. Packed
    into large files that are read in sequence, the same samples arrive at the full rate of the storage.

    ## When it is fine
    Local solid-state disks, data that fits the page cache, samples that are large files themselves (volumes, videos),
    and data that is looked at once. The rule is for those who ask for it, since the code does not tell where the files
    lie.

    ## Example
    ```python
    def __getitem__(self, index):
        return self.transform(Image.open(self.paths[index]))
    ```

    ## Use instead
    ```python
    # Tar files of some hundred megabytes each, read in sequence and shuffled in a buffer.
    dataset = webdataset.WebDataset(shards, shardshuffle=100).shuffle(5000).decode("pil").to_tuple("jpg", "cls")
    ```

    ## Fix safety
    Advice without edits: the samples have to be packed first.

    ## How the probe confirms it
    By stack samples under this line, in the loader's workers or in the training thread, together with the share of the
    step that waits for data. That includes what decoding in the same call takes.

    ## References
    - Many small files: lmdb, tfrecord or webdataset, for sequential reads; from a hard disk to NVMe, with more workers
      and pinned memory, 3x throughput in one case (article 003).
    - WebDataset: https://github.com/webdataset/webdataset
    """

    code, name, family = "TL118", "small-files-per-item", Family.DATA
    severity, default = Severity.INFO, False
    fix_class = Applicability.DISPLAY
    confirmed_by = "stack samples in the workers under this line; data wait share"
    examples = (
        invalid(
            """
            import os

            import torch
            from PIL import Image
            from torch import nn
            from torch.utils.data import DataLoader, Dataset
            from torchvision.transforms.functional import to_tensor


            class Scans(Dataset):
                def __init__(self, folder):
                    self.paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    return to_tensor(Image.open(self.paths[index]).convert("L"))  # expect: TL118


            model = nn.Conv2d(1, 1, 3, padding=1).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for scans in DataLoader(Scans("/mnt/nfs/scans"), batch_size=16, num_workers=8, pin_memory=True):
                loss = model(scans.cuda(non_blocking=True)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="an image file for each item",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from commands import Commands

            model = nn.Linear(16000, 35).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for waves, labels in DataLoader(Commands("commands.csv", "wav"), batch_size=64, num_workers=4):
                loss = nn.functional.cross_entropy(model(waves.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the name is put together in a helper, in another file",
            others={
                "commands.py": """
                import csv
                import os

                import torchaudio
                from torch.utils.data import Dataset


                class Commands(Dataset):
                    def __init__(self, table, folder):
                        with open(table) as file:
                            self.rows = list(csv.DictReader(file))
                        self.folder = folder

                    def __len__(self):
                        return len(self.rows)

                    def read(self, name):
                        wave, _ = torchaudio.load(os.path.join(self.folder, name))  # expect: TL118
                        return wave[0]

                    def __getitem__(self, index):
                        row = self.rows[index]
                        return self.read(row["file"]), int(row["label"])
                """
            },
        ),
        invalid(
            """
            import json

            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Records(Dataset):
                def __init__(self, count):
                    self.count = count

                def __len__(self):
                    return self.count

                def __getitem__(self, index):
                    path = f"records/{index:08}.json"
                    with open(path) as file:  # expect: TL118
                        return torch.tensor(json.load(file)["values"])


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for rows in DataLoader(Records(1_000_000), batch_size=256, shuffle=True, num_workers=8):
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a million text files of a record each",
        ),
        invalid(
            """
            from pathlib import Path

            import numpy as np
            import torch
            from torch.utils.data import Dataset


            class Features(Dataset):
                def __init__(self, root):
                    self.paths = sorted(Path(root).glob("*.npy"))

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, idx):
                    features = np.load(str(self.paths[idx]))  # expect: TL118
                    return torch.from_numpy(features)
            """,
            because="a dataset by itself is there for some training",
        ),
        valid(
            """
            import torch
            import webdataset
            from torch import nn
            from torch.utils.data import DataLoader

            shards = "scans-{000000..000099}.tar"
            dataset = webdataset.WebDataset(shards).shuffle(1000).decode("torch").to_tuple("png")
            model = nn.Conv2d(1, 1, 3, padding=1).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for (scans,) in DataLoader(dataset, batch_size=16, num_workers=8):
                loss = model(scans.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="tar files, read in sequence",
        ),
        valid(
            """
            import io

            import lmdb
            import torch
            from PIL import Image
            from torch import nn
            from torch.utils.data import DataLoader, Dataset
            from torchvision.transforms.functional import to_tensor


            class Scans(Dataset):
                def __init__(self, path, count):
                    self.path, self.count, self.database = path, count, None

                def __len__(self):
                    return self.count

                def __getitem__(self, index):
                    if self.database is None:
                        self.database = lmdb.open(self.path, readonly=True, lock=False)
                    with self.database.begin() as transaction:
                        return to_tensor(Image.open(io.BytesIO(transaction.get(str(index).encode()))))


            model = nn.Conv2d(1, 1, 3, padding=1).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for scans in DataLoader(Scans("scans.lmdb", 100_000), batch_size=16, num_workers=8):
                loss = model(scans.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="one database, from which the bytes of the images come",
        ),
        valid(
            """
            import torch
            from PIL import Image
            from torch import nn
            from torch.utils.data import DataLoader, Dataset
            from torchvision.transforms.functional import to_tensor


            class Digits(Dataset):
                def __init__(self, paths):
                    self.images = [to_tensor(Image.open(path)) for path in paths]

                def __len__(self):
                    return len(self.images)

                def __getitem__(self, index):
                    return self.images[index]


            model = nn.Conv2d(1, 1, 3, padding=1).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            with open("digits.txt") as file:
                digits = Digits(file.read().split())
            for images in DataLoader(digits, batch_size=64):
                loss = model(images.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="all files are read once, in the constructor",
        ),
        valid(
            """
            import torch
            from PIL import Image
            from torch import nn
            from torch.utils.data import DataLoader, Dataset
            from torchvision.transforms.functional import to_tensor


            class Digits(Dataset):
                def __init__(self, paths):
                    self.paths = paths
                    self.cache = {}

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    if index not in self.cache:
                        self.cache[index] = to_tensor(Image.open(self.paths[index]))
                    return self.cache[index]


            model = nn.Conv2d(1, 1, 3, padding=1).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            with open("digits.txt") as file:
                digits = Digits(file.read().split())
            for epoch in range(100):
                for images in DataLoader(digits, batch_size=64):
                    loss = model(images.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="what was read is kept for the next epoch",
        ),
        valid(
            """
            import nibabel
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Volumes(Dataset):
                def __init__(self, paths):
                    self.paths = paths

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    return torch.from_numpy(nibabel.load(self.paths[index]).get_fdata())[None]


            model = nn.Conv3d(1, 1, 3, padding=1).cuda().double()
            optimizer = torch.optim.Adam(model.parameters())
            with open("volumes.txt") as file:
                volumes = Volumes(file.read().split())
            for batch in DataLoader(volumes, batch_size=1, num_workers=4):
                loss = model(batch.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="each sample is a volume, a large file by itself",
        ),
        valid(
            """
            import torch
            from PIL import Image
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset
            from torchvision.transforms.functional import to_tensor

            paths = [f"check/{number}.png" for number in range(8)]
            model = nn.Conv2d(1, 1, 3, padding=1).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(10):
                for (images,) in DataLoader(TensorDataset(torch.load("images.pt")), batch_size=64):
                    loss = model(images.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                shown = to_tensor(Image.open(paths[epoch % 8]))
                print(model(shown[None].cuda()).mean().item())
            """,
            because="once per epoch, to look at",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Lines(Dataset):
                def __init__(self, path, starts):
                    self.path = path
                    self.starts = starts

                def __len__(self):
                    return len(self.starts)

                def __getitem__(self, index):
                    with open(self.path) as file:
                        file.seek(self.starts[index])
                        return torch.tensor([float(number) for number in file.readline().split()])


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for rows in DataLoader(Lines("rows.txt", torch.load("starts.pt")), batch_size=64):
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="one file for all items, which is what TL111 is about",
        ),
        invalid(
            """
            from pathlib import Path

            import torch
            from torch.utils.data import Dataset


            class Recordings(Dataset):
                def __init__(self, folder, count):
                    self.folder = Path(folder)
                    self.count = count

                def __len__(self):
                    return self.count

                def __getitem__(self, index):
                    path = self.folder / f"{index}.raw"
                    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.int16)  # expect: TL118
            """,
            because="a path reads its file",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls_of(*ONE_SAMPLE):
            makes_an_item = call.context.region is Region.DATA and call.context.for_each_item and call.context.routine
            writes = call.name in OPENS and call.may_write
            if makes_an_item and call.varies_by_item and not writes and not call.maps_memory:
                yield self.finding(
                    call,
                    f"{quote(call.text)} opens a file of its own for every sample",
                    help="Pack the samples into few large files that are read in sequence: WebDataset, LMDB, Arrow",
                    confidence=min(call.context.served, Confidence.MEDIUM),
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, "Pack the samples into few large files: WebDataset, LMDB, Arrow")

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_stacks(evidence, finding.site)
