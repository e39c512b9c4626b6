from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_stacks
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import FrameAccess, Project
from trainlint.semantics.vocabulary import Confidence, Frequency, Region

BY_ROW = {"iterrows": "goes through a table row by row", "apply": "calls a Python function for each row of a table"}
"""What goes through all rows; the others look one up."""


class PandasPerItem(Rule):
    """A dataset asks pandas for every sample.

    ## What it does
    Reports `.iloc[…]`, `.loc[…]`, `.apply(…)` and `.iterrows()` of a pandas DataFrame or Series in a dataset's
    `__getitem__`, or in the loops of an iterable dataset's `__iter__`, in this file or through helpers in others.

    ## Why it is slow
    Looking up a row, pandas first finds out what kind of key it was given, then copies the row's cells from all columns
    into a new Series of Python objects. That is tens of microseconds of Python for what an array or a list does in far
    less than one, paid for every sample of every epoch. `apply` and `iterrows` pay it for all rows.

    ## When it is fine
    In the constructor, once; where each sample takes so long to read and decode that the lookup does not count, which
    the probe tells.

    ## Example
    ```python
    def __init__(self, path):
        self.table = pd.read_csv(path)

    def __getitem__(self, index):
        row = self.table.iloc[index]
        return row["text"], row["label"]
    ```

    ## Use instead
    ```python
    def __init__(self, path):
        table = pd.read_csv(path)
        self.texts, self.labels = table["text"].tolist(), table["label"].to_numpy()

    def __getitem__(self, index):
        return self.texts[index], self.labels[index]
    ```

    ## Fix safety
    Advice without edits: which columns are needed, and as what type, is the author's choice.

    ## How the probe confirms it
    By stack samples under this line, in the loader's workers or in the training thread, together with the share of the
    step that waits for data. Worker time that the step never waits for costs nothing.

    ## References
    - A GPU that is starved by Python work in `__getitem__` is data-bound (article 000).
    - pandas, indexing has a bit of overhead in order to figure out what it is asked for:
      https://pandas.pydata.org/docs/user_guide/indexing.html#fast-scalar-value-getting-and-setting
    """

    code, name, family = "TL117", "pandas-per-item", Family.DATA
    fix_class = Applicability.DISPLAY
    confirmed_by = "stack samples in the workers under this line; data wait share"
    examples = (
        invalid(
            """
            import pandas as pd
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Measurements(Dataset):
                def __init__(self, path):
                    self.table = pd.read_csv(path)

                def __len__(self):
                    return len(self.table)

                def __getitem__(self, index):
                    row = self.table.iloc[index]  # expect: TL117
                    return torch.tensor(row[:-1].values.astype("float32")), float(row["target"])


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(Measurements("train.csv"), batch_size=256, shuffle=True, num_workers=4)
            for epoch in range(20):
                for inputs, targets in loader:
                    loss = nn.functional.mse_loss(model(inputs.cuda()), targets.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the rows of a table of numbers",
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            from faces import Faces

            model = nn.Conv2d(3, 1, 3).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for images, labels in DataLoader(Faces("faces.csv", "faces"), batch_size=32, num_workers=8):
                loss = nn.functional.mse_loss(model(images.cuda()).mean((2, 3)), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a cell at a time, through a helper method, in another file",
            others={
                "faces.py": """
                import os

                import pandas as pd
                import torch
                from torch.utils.data import Dataset
                from torchvision.io import read_image


                class Faces(Dataset):
                    def __init__(self, csv_file, folder, transform=None):
                        table = pd.read_csv(csv_file)
                        self.table = table[table["split"] == "train"].reset_index(drop=True)
                        self.folder = folder
                        self.transform = transform

                    def __len__(self):
                        return len(self.table)

                    def label(self, index):
                        return torch.tensor(self.table.loc[index, "label"])  # expect: TL117

                    def __getitem__(self, index):
                        image = read_image(os.path.join(self.folder, self.table.iloc[index, 0]))  # expect: TL117
                        if self.transform:
                            image = self.transform(image)
                        return image, self.label(index)
                """
            },
        ),
        invalid(
            """
            from torch.utils.data import Dataset


            class Reviews(Dataset):
                def __init__(self, df, max_length):
                    self.df = df
                    self.max_length = max_length

                def __len__(self):
                    return len(self.df)

                def __getitem__(self, index):
                    text = self.df.iloc[index]["review"]  # expect: TL117
                    return text[: self.max_length]
            """,
            because="a dataset by itself is there for some training; only pandas has iloc",
        ),
        invalid(
            """
            import pandas as pd
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, IterableDataset


            class Trips(IterableDataset):
                def __init__(self, paths):
                    self.paths = paths

                def __iter__(self):
                    for path in self.paths:
                        for _, row in pd.read_parquet(path).iterrows():  # expect: TL117
                            yield torch.tensor([row["distance"], row["passengers"]]), row["fare"]


            model = nn.Linear(2, 1).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for inputs, fares in DataLoader(Trips(["2023.parquet", "2024.parquet"]), batch_size=1024):
                loss = nn.functional.mse_loss(model(inputs.cuda()), fares.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="an iterable dataset makes a Series of each row",
        ),
        invalid(
            """
            import pandas as pd
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Sessions(Dataset):
                def __init__(self, path):
                    self.events = pd.read_csv(path)
                    self.users = self.events["user"].unique()

                def __len__(self):
                    return len(self.users)

                def __getitem__(self, index):
                    events = self.events[self.events["user"] == self.users[index]]
                    prices = events["price"].apply(lambda price: price / 100)  # expect: TL117
                    return torch.tensor(prices.to_numpy()[:16])


            model = nn.Linear(16, 1).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for prices in DataLoader(Sessions("events.csv"), batch_size=64, shuffle=True):
                loss = model(prices.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a Python function for each event of each user, in every epoch",
        ),
        valid(
            """
            import pandas as pd
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Measurements(Dataset):
                def __init__(self, path):
                    table = pd.read_csv(path)
                    train = table.loc[table["split"] == "train"].iloc[1:]
                    self.targets = torch.tensor(train["target"].apply(float).values)
                    self.inputs = torch.tensor(train.iloc[:, 2:].values)

                def __len__(self):
                    return len(self.targets)

                def __getitem__(self, index):
                    return self.inputs[index], self.targets[index]


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, targets in DataLoader(Measurements("train.csv"), batch_size=256, shuffle=True):
                loss = nn.functional.mse_loss(model(inputs.cuda()), targets.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="pandas works once, in the constructor",
        ),
        valid(
            """
            import pandas as pd
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Samples(Dataset):
                def __init__(self, path):
                    self.rows = []
                    for _, row in pd.read_csv(path).iterrows():
                        self.rows.append((torch.tensor(row["x"]), torch.tensor(row["y"])))

                def __len__(self):
                    return len(self.rows)

                def __getitem__(self, index):
                    return self.rows[index]


            model = nn.Linear(1, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs, targets in DataLoader(Samples("train.csv"), batch_size=256, shuffle=True):
                loss = nn.functional.mse_loss(model(inputs[:, None].cuda()), targets.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="row by row, but once",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Gaussians(Dataset):
                def __init__(self, loc, scale):
                    self.loc = torch.tensor(loc)
                    self.scale = torch.tensor(scale)

                def __len__(self):
                    return len(self.loc)

                def __getitem__(self, index):
                    return torch.normal(self.loc[index], self.scale[index])


            model = nn.Linear(1, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for samples in DataLoader(Gaussians([0.0, 1.0], [1.0, 2.0]), batch_size=2):
                loss = model(samples[:, None].cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a tensor that is called loc",
        ),
        valid(
            """
            import pandas as pd
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Numbers(Dataset):
                def __init__(self, path):
                    self.data = pd.read_csv(path).to_numpy()

                def __len__(self):
                    return len(self.data)

                def __getitem__(self, index):
                    return torch.from_numpy(self.data[index])


            model = nn.Linear(32, 1).cuda().double()
            optimizer = torch.optim.AdamW(model.parameters())
            history = pd.DataFrame({"epoch": range(5), "loss": 0.0})
            for epoch in range(5):
                for inputs in DataLoader(Numbers("train.csv"), batch_size=256):
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                print(history.iloc[epoch], history.loc[epoch, "loss"])
            """,
            because="once per epoch, to print",
        ),
        valid(
            """
            import pandas as pd
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Cached(Dataset):
                def __init__(self, path):
                    self.table = pd.read_csv(path)
                    self.kept = {}

                def __len__(self):
                    return len(self.table)

                def __getitem__(self, index):
                    if index not in self.kept:
                        self.kept[index] = torch.tensor(self.table.iloc[index].values)
                    return self.kept[index]


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for epoch in range(50):
                for inputs in DataLoader(Cached("train.csv"), batch_size=256):
                    loss = model(inputs.cuda()).square().mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the result is kept for the next epoch",
        ),
        valid(
            """
            import pandas as pd
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, IterableDataset


            class Chunks(IterableDataset):
                def __init__(self, path, first):
                    self.table = pd.read_parquet(path)
                    self.first = first

                def __iter__(self):
                    part = self.table.iloc[self.first :].to_numpy()
                    for row in part:
                        yield torch.from_numpy(row)


            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for inputs in DataLoader(Chunks("train.parquet", 1000), batch_size=256):
                loss = model(inputs.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="one slice before the loop over the rows",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for access in project.frame_accesses:
            if _is_per_item(access) and not access.cached and access.context.routine:
                does = BY_ROW.get(access.how, "has pandas look up a row")
                yield self.finding(
                    access,
                    f"{quote(access.text)} {does} for every sample",
                    help="Take the columns out once, in the constructor: `.to_numpy()` or `.tolist()`",
                    confidence=_certainty(access),
                )

    def fix(self, finding: Finding) -> Fix | None:
        return Fix(
            Applicability.DISPLAY,
            "Take the columns out in the constructor, by `.to_numpy()` or `.tolist()`, and index those",
        )

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_stacks(evidence, finding.site)


def _is_per_item(access: FrameAccess) -> bool:
    """Whether it makes a sample; rows that are gone through in an iterable dataset are one each."""
    context = access.context
    makes_samples = context.region is Region.DATA and context.frequency is Frequency.PER_SAMPLE
    return makes_samples and (context.for_each_item or access.how == "iterrows")


def _certainty(access: FrameAccess) -> Confidence:
    """How sure it is that this is pandas, and that training has to wait for it."""
    if not access.context.entry.trains:
        return Confidence.MEDIUM if access.context.uncalled else Confidence.LOW
    return Confidence.HIGH if access.proved else Confidence.MEDIUM
