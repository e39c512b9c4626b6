from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, Fix, ReplaceExpression
from trainlint.lint.finding import Family, Finding
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_stacks
from trainlint.probe.verdict import Verdict
from trainlint.semantics.project import Call, Project
from trainlint.semantics.values import Host, Listing, Tuple, Value
from trainlint.semantics.vocabulary import Confidence

CONSTRUCTORS = ("torch.tensor", "torch.as_tensor")


class TensorFromArrayList(Rule):
    """A tensor is made of a list of numpy arrays, number by number.

    ## What it does
    Reports `torch.tensor([array, …])` and `torch.as_tensor` of a list or a tuple of numpy arrays, in code that runs for
    each sample, batch or training step.

    ## Why it is slow
    PyTorch walks such a list as it would any nested sequence: each number becomes a Python object first. Stacked into
    one array, the same data are copied as blocks of memory.

    ## When it is fine
    Lists of Python numbers, or of numpy's scalars; set-up code that runs once.

    ## Example
    ```python
    frames = [np.load(path) for path in paths]
    clip = torch.tensor(frames)
    ```

    ## Use instead
    ```python
    frames = [np.load(path) for path in paths]
    clip = torch.from_numpy(np.stack(frames))
    ```

    ## Fix safety
    Unsafe: arrays of different types are brought to one that holds all of them by numpy's rules, which are not
    PyTorch's in every case. Where numpy is not imported under a usual name, the fix is advice only.

    ## How the probe confirms it
    By stack samples under this line, in the loader's workers or in the training thread.

    ## References
    - PyTorch warns by itself, once: "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider
      converting the list to a single numpy.ndarray with numpy.array() before converting to a tensor":
      https://github.com/pytorch/pytorch/blob/main/torch/csrc/utils/tensor_new.cpp
    """

    code, name, family = "TL110", "tensor-from-array-list", Family.DATA
    fix_class = Applicability.UNSAFE
    confirmed_by = "stack samples under this line"
    examples = (
        invalid(
            """
            import numpy as np
            import torch
            from torch.utils.data import DataLoader, Dataset


            class Clips(Dataset):
                def __init__(self, clips):
                    self.clips = clips

                def __len__(self):
                    return len(self.clips)

                def __getitem__(self, index):
                    return torch.tensor([np.load(path) for path in self.clips[index]])  # expect: TL110


            loader = DataLoader(Clips(open("clips.txt").read().split()), batch_size=8, num_workers=4)
            """,
            because="each clip is made of a list of frames",
            fixed="""
            import numpy as np
            import torch
            from torch.utils.data import DataLoader, Dataset


            class Clips(Dataset):
                def __init__(self, clips):
                    self.clips = clips

                def __len__(self):
                    return len(self.clips)

                def __getitem__(self, index):
                    return torch.from_numpy(np.stack([np.load(path) for path in self.clips[index]]))


            loader = DataLoader(Clips(open("clips.txt").read().split()), batch_size=8, num_workers=4)
            """,
        ),
        invalid(
            """
            import numpy
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def collate(rows):
                images = []
                for image, _ in rows:
                    images.append(numpy.asarray(image).astype(numpy.float32) / 255.0)
                labels = torch.tensor([label for _, label in rows])
                return torch.tensor(images, dtype=torch.float32), labels  # expect: TL110


            loader = DataLoader(torch.load("rows.pt"), batch_size=64, num_workers=4, collate_fn=collate)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the batch is gathered in a list",
            fixed="""
            import numpy
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            def collate(rows):
                images = []
                for image, _ in rows:
                    images.append(numpy.asarray(image).astype(numpy.float32) / 255.0)
                labels = torch.tensor([label for _, label in rows])
                return torch.tensor(numpy.stack(images), dtype=torch.float32), labels


            loader = DataLoader(torch.load("rows.pt"), batch_size=64, num_workers=4, collate_fn=collate)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from replay import sample
            from torch import nn

            model = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.Adam(model.parameters())
            for step in range(10_000):
                states = sample(64)
                loss = model(states.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="at each training step, in another file",
            others={
                "replay.py": """
                import numpy as np
                import torch


                def sample(count):
                    states = [np.zeros(8, dtype=np.float32) for _ in range(count)]
                    return torch.as_tensor(states)  # expect: TL110
                """
            },
        ),
        invalid(
            """
            import numpy as np
            import torch
            from torch.utils.data import IterableDataset


            class Windows(IterableDataset):
                def __init__(self, path):
                    self.path = path

                def __iter__(self):
                    series = np.load(self.path)
                    for start in range(0, len(series) - 64):
                        window = np.ascontiguousarray(series[start : start + 64])
                        yield torch.as_tensor((window, np.flip(window)))  # expect: TL110
            """,
            because="for each item of an iterable dataset, as a tuple",
            fixed="""
            import numpy as np
            import torch
            from torch.utils.data import IterableDataset


            class Windows(IterableDataset):
                def __init__(self, path):
                    self.path = path

                def __iter__(self):
                    series = np.load(self.path)
                    for start in range(0, len(series) - 64):
                        window = np.ascontiguousarray(series[start : start + 64])
                        yield torch.from_numpy(np.stack((window, np.flip(window))))
            """,
        ),
        valid(
            """
            import torch
            from torch.utils.data import DataLoader, Dataset


            class Rows(Dataset):
                def __init__(self, rows):
                    self.rows = rows

                def __len__(self):
                    return len(self.rows)

                def __getitem__(self, index):
                    row = self.rows[index]
                    return torch.tensor([float(number) for number in row.split(",")]), torch.tensor([0, 1])


            loader = DataLoader(Rows(open("rows.csv").readlines()), batch_size=64, num_workers=2)
            """,
            because="a list of Python numbers",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch.utils.data import DataLoader, Dataset


            class Statistics(Dataset):
                def __init__(self, paths):
                    self.paths = paths

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    image = np.load(self.paths[index])
                    return torch.tensor([np.mean(image), np.std(image), image.max(), image[0, 0]])


            loader = DataLoader(Statistics(open("paths.txt").read().split()), batch_size=64, num_workers=2)
            """,
            because="a list of numpy's scalars",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch.utils.data import DataLoader, Dataset


            class Clips(Dataset):
                def __init__(self, clips):
                    self.clips = clips

                def __len__(self):
                    return len(self.clips)

                def __getitem__(self, index):
                    frames = np.stack([np.load(path) for path in self.clips[index]])
                    return torch.from_numpy(frames), torch.tensor(np.array([index]))


            loader = DataLoader(Clips(open("clips.txt").read().split()), batch_size=8, num_workers=4)
            """,
            because="stacked into one array first",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            inputs = torch.tensor([np.load(path) for path in open("paths.txt").read().split()])
            loader = DataLoader(TensorDataset(inputs), batch_size=64)
            model = nn.Linear(32, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for (batch,) in loader:
                loss = model(batch.cuda()).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="once, before training",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch.utils.data import DataLoader, Dataset


            class Frames(Dataset):
                def __init__(self, paths):
                    self.paths = paths
                    self.means = torch.tensor([np.array([0.5, 0.5, 0.5]), np.array([0.2, 0.2, 0.2])])

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    return torch.from_numpy(np.load(self.paths[index])) - self.means[0]


            loader = DataLoader(Frames(open("paths.txt").read().split()), batch_size=8, num_workers=4)
            """,
            because="in the constructor of the dataset",
        ),
        valid(
            """
            import numpy as np
            import torch
            from torch.utils.data import IterableDataset


            class Rows(IterableDataset):
                def __init__(self, paths):
                    self.paths = paths

                def __iter__(self):
                    table = torch.tensor([np.load(path) for path in self.paths])
                    for row in table:
                        yield row
            """,
            because="once in a pass, before the loop over the items",
        ),
        valid(
            """
            import torch
            from torch.utils.data import DataLoader


            def collate(rows):
                return torch.tensor([row["ids"] for row in rows]), torch.stack([row["image"] for row in rows])


            loader = DataLoader(torch.load("rows.pt"), batch_size=64, num_workers=4, collate_fn=collate)
            """,
            because="nothing tells that the items are arrays",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for call in project.calls_of(*CONSTRUCTORS):
            often = call.context.for_each_item or (call.context.hot and call.context.routine)
            if often and len(call.arguments.positional) == 1 and _holds_arrays(call.arguments.positional[0]):
                yield self.finding(
                    call,
                    f"{quote(call.text)} converts a list of arrays number by number, {call.context.frequency.phrase}",
                    help="Stack the arrays first: torch.from_numpy(np.stack(…))",
                    confidence=Confidence.HIGH,
                )

    def fix(self, finding: Finding) -> Fix | None:
        call = finding.subject
        if not isinstance(call, Call):
            return None
        message = "Stack the arrays first: torch.from_numpy(np.stack(…))"
        written = call.text.startswith(CONSTRUCTORS)
        if not written or not call.numpy or call.arguments.spread:
            return Fix(Applicability.DISPLAY, message)
        stacked = f"{call.numpy}.stack({{arg0}})"
        keywords = ", ".join(f"{name}={{{name}}}" for name in call.arguments.named)
        template = f"torch.tensor({stacked}, {keywords})" if keywords else f"torch.from_numpy({stacked})"
        return Fix(Applicability.UNSAFE, message, (ReplaceExpression(call.site, template),))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_stacks(evidence, finding.site)


def _holds_arrays(value: Value) -> bool:
    """Whether a value is a list or a tuple of numpy arrays."""
    items = (value.item,) if isinstance(value, Listing) else value.items if isinstance(value, Tuple) else ()
    return bool(items) and all(isinstance(item, Host) and item.kind == "array" and item.whole for item in items)
