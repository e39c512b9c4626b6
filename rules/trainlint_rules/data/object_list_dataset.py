from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, RelatedSite, Severity
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import MADE_NOWHERE
from trainlint.probe.verdict import Status, Verdict
from trainlint.semantics.project import Project
from trainlint.semantics.vocabulary import Confidence


class ObjectListDataset(Rule):
    """Each loader worker comes to hold a copy of a list of Python objects.

    ## What it does
    Reports training loaders with workers whose dataset looks its items up, by the index, in a Python list of text,
    numbers or dictionaries.

    ## Why it is slow
    Forked workers share the memory of their parent until one of them writes to it, and Python writes to every object
    that it touches: the count of references stands in the object. So each worker ends up with a copy of all items that
    it has looked at, page by page. Memory grows over the epoch, by the size of the list for each worker of each rank,
    until the machine swaps or kills the job. Tensors, arrays and Arrow tables hold their data in a few large blocks,
    which nobody writes to.

    ## When it is fine
    Lists of some thousand items. The rule is for those who ask for it, since the code does not tell how many items
    there will be.

    ## Example
    ```python
    def __init__(self, path):
        self.rows = [json.loads(line) for line in open(path)]
    ```

    ## Use instead
    ```python
    def __init__(self, path):
        # One array of bytes and one of positions, or a dataset of `datasets`, which is a memory-mapped Arrow table.
        lines = open(path, "rb").readlines()
        self.ends = np.cumsum([len(line) for line in lines])
        self.bytes = np.frombuffer(b"".join(lines), np.uint8)
    ```

    ## Fix safety
    Advice without edits: how the items are packed depends on what they hold.

    ## How the probe confirms it
    Not yet: the memory of the workers is not followed from step to step. It shows in their proportional set size (PSS),
    which grows over an epoch.

    ## References
    - Token ids belong in Arrow, MDS or npy files (article 000), which workers share.
    - PyTorch, "DataLoader num_workers > 0 causes CPU memory from parent process to be replicated in all worker
      processes": https://github.com/pytorch/pytorch/issues/13246
    """

    code, name, family = "TL122", "object-list-dataset", Family.DATA
    severity, default = Severity.INFO, False
    fix_class = Applicability.DISPLAY
    confirmed_by = "RSS growth of workers"
    examples = (
        invalid(
            """
            import json

            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Reviews(Dataset):
                def __init__(self, path):
                    with open(path) as file:
                        self.rows = json.load(file)

                def __len__(self):
                    return len(self.rows)

                def __getitem__(self, index):
                    row = self.rows[index]
                    return torch.tensor(row["features"]), row["stars"]


            model = nn.Linear(32, 5).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(Reviews("reviews.json"), batch_size=64, shuffle=True, num_workers=8)  # expect: TL122
            for features, stars in loader:
                loss = nn.functional.cross_entropy(model(features.cuda()), stars.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a list of dictionaries",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from lines import Lines

            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(Lines("rows.txt"), batch_size=64, num_workers=4)  # expect: TL122
            for rows in loader:
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the lines of a file, in another file",
            others={
                "lines.py": """
                import torch
                from torch.utils.data import Dataset


                class Lines(Dataset):
                    def __init__(self, path):
                        with open(path) as file:
                            self.lines = file.readlines()

                    def __len__(self):
                        return len(self.lines)

                    def __getitem__(self, index):
                        return torch.tensor([float(number) for number in self.lines[index].split()])
                """
            },
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Pairs(Dataset):
                def __init__(self, path):
                    self.pairs = []
                    with open(path) as file:
                        for line in file:
                            source, target = line.split("\\t")
                            self.pairs.append((source, target))

                def __len__(self):
                    return len(self.pairs)

                def __getitem__(self, index):
                    source, target = self.pairs[index]
                    return torch.tensor(float(len(source))), torch.tensor(float(len(target)))


            def train(workers=4):
                model = nn.Linear(1, 1).cuda()
                optimizer = torch.optim.AdamW(model.parameters())
                loader = DataLoader(Pairs("pairs.tsv"), batch_size=64, num_workers=workers)  # expect: TL122
                for sources, targets in loader:
                    loss = nn.functional.mse_loss(model(sources[:, None].cuda()), targets[:, None].cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            train()
            """,
            because="tuples of text, appended one by one",
        ),
        invalid(
            """
            import csv

            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Trips(Dataset):
                def __init__(self, path):
                    with open(path) as file:
                        self.trips = list(csv.DictReader(file))

                def __len__(self):
                    return len(self.trips)

                def __getitem__(self, index):
                    return torch.tensor([float(self.trips[index]["distance"])])


            class Regression(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = nn.Linear(1, 1)

                def training_step(self, batch, batch_idx):
                    return self.model(batch).square().mean()

                def train_dataloader(self):
                    return DataLoader(Trips("trips.csv"), batch_size=256, num_workers=6)  # expect: TL122

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), lr=0.1)


            L.Trainer(accelerator="gpu", max_epochs=3).fit(Regression())
            """,
            because="a dictionary for each row of a table",
        ),
        valid(
            """
            import json

            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Reviews(Dataset):
                def __init__(self, path):
                    with open(path) as file:
                        self.rows = json.load(file)

                def __len__(self):
                    return len(self.rows)

                def __getitem__(self, index):
                    return torch.tensor(self.rows[index]["features"])


            model = nn.Linear(32, 5).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for features in DataLoader(Reviews("reviews.json"), batch_size=64, shuffle=True):
                loss = model(features.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="no workers, so that there is one copy",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Rows(Dataset):
                def __init__(self, path):
                    self.rows = np.load(path)

                def __len__(self):
                    return len(self.rows)

                def __getitem__(self, index):
                    return torch.from_numpy(self.rows[index])


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for rows in DataLoader(Rows("rows.npy"), batch_size=64, num_workers=4):
                loss = model(rows.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="an array is one block of memory, which workers share",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Images(Dataset):
                def __init__(self, paths):
                    self.images = [torch.load(path).float() for path in paths]
                    self.masks = [torch.zeros(3, 8, 8) for path in paths]

                def __len__(self):
                    return len(self.images)

                def __getitem__(self, index):
                    return self.masks[index], self.images[index]


            model = nn.Conv2d(3, 3, 3, padding=1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            with open("images.txt") as file:
                images = Images(file.read().split())
            for masks, batch in DataLoader(images, batch_size=8, num_workers=4):
                loss = (model(batch.cuda()) * masks.cuda()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a list of tensors, whose data lies apart from the objects",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Waves(Dataset):
                def __init__(self):
                    self.rates = [8000, 16000, 44100]

                def __len__(self):
                    return len(self.rates)

                def __getitem__(self, index):
                    return torch.arange(32) * self.rates[index]


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for waves in DataLoader(Waves(), num_workers=2):
                loss = model(waves.float().cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="three numbers",
        ),
        valid(
            """
            import torch
            from datasets import load_dataset
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Reviews(Dataset):
                def __init__(self):
                    self.rows = load_dataset("imdb", split="train")

                def __len__(self):
                    return len(self.rows)

                def __getitem__(self, index):
                    row = self.rows[index]
                    return torch.tensor(float(len(row["text"]))), row["label"]


            model = nn.Linear(1, 2).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for lengths, labels in DataLoader(Reviews(), batch_size=64, num_workers=4):
                loss = nn.functional.cross_entropy(model(lengths[:, None].cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="an Arrow table on disk, mapped into memory",
        ),
        valid(
            """
            import json

            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Tokens(Dataset):
                def __init__(self, path):
                    with open(path + ".json") as file:
                        self.settings = json.load(file)
                    self.tokens = torch.load(path + ".pt")

                def __len__(self):
                    return len(self.tokens)

                def __getitem__(self, index):
                    return self.tokens[index] * self.settings["scale"]


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for tokens in DataLoader(Tokens("train"), batch_size=64, num_workers=4):
                loss = model(tokens.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="settings that are looked up by name, and items that are a tensor",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loader in project.loaders:
            if loader.trains and loader.object_lists and (loader.workers or 0) > 0:
                names = " and ".join(f"`self.{name}`" for name in loader.object_lists)
                yield self.finding(
                    loader,
                    f"Each worker of {quote(loader.text)} comes to hold a copy of what is in {names}",
                    help="Keep the items in an array, a tensor or an Arrow table, which workers share",
                    confidence=Confidence.MEDIUM,
                    related=tuple(RelatedSite(use.site, "the loop that it serves") for use in loader.uses),
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(Applicability.DISPLAY, "Keep the items in an array, a tensor or an Arrow table")

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        if evidence.did_run(finding.site) is False:
            return MADE_NOWHERE
        note = "the memory of loader workers is not followed; see whether their proportional set size (PSS) grows"
        return Verdict(Status.INCONCLUSIVE, note=note)
