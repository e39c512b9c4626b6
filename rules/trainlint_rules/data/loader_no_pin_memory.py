from __future__ import annotations

from collections.abc import Iterator

from trainlint.fixes.recipe import Applicability, EnsureImport, Fix, RemoveArgument, SetArgument
from trainlint.lint.finding import Family, Finding, RelatedSite
from trainlint.lint.rule import Rule, invalid, quote, valid
from trainlint.probe.evidence import Evidence
from trainlint.probe.judges import judge_pageable_copies
from trainlint.probe.verdict import Verdict
from trainlint.semantics.duties import Duty
from trainlint.semantics.project import Call, Loader, Project
from trainlint.semantics.values import Option
from trainlint.semantics.vocabulary import Confidence, GuardKind, Known, Place

TORCH_LOADER = "torch.utils.data.DataLoader"
ARGUMENT = "dataloader_pin_memory"
"""What a Trainer of transformers calls it; on by default."""
POSITION = 7
"""Of `pin_memory` among DataLoader's parameters."""


class LoaderNoPinMemory(Rule):
    """Batches of a GPU training loader come in pageable memory.

    ## What it does
    Reports training loaders whose batches go to a CUDA device and that do not ask for `pin_memory`, and Hugging Face
    `TrainingArguments` with `dataloader_pin_memory=False`. Where it is not known whether the job trains on CUDA, the
    finding has low confidence.

    ## Why it is slow
    The GPU can only fetch from page-locked memory. A copy from ordinary memory goes through a staging buffer first, and
    `non_blocking=True` cannot make it overlap with computing: the host waits until the batch has left.

    ## When it is fine
    Training on a CPU; datasets that yield CUDA tensors (pinning those is an error); a Hugging Face `Trainer`, which
    pins by default; hosts short of memory, since pinned pages cannot be swapped out.

    ## Example
    ```python
    loader = DataLoader(dataset, batch_size=256, num_workers=8)
    ```

    ## Use instead
    ```python
    loader = DataLoader(dataset, batch_size=256, num_workers=8, pin_memory=True)
    # Where the job may also run without a GPU:
    loader = DataLoader(dataset, batch_size=256, num_workers=8, pin_memory=torch.cuda.is_available())
    ```

    ## Fix safety
    Safe: the values of a batch do not change. Where the code also runs without a GPU, the fix writes the condition,
    because pinning without an accelerator warns and helps nothing. Arguments that come as `**kwargs` get advice only.
    Unsafe where a Trainer was told not to pin: somebody may have had a reason.

    ## How the probe confirms it
    By the copies in a GPU trace that move its batches: pageable ones with their share of the step confirm it, pinned
    ones clear it.

    ## References
    - pin_memory=True belongs in every GPU loader (articles 000, 001 and 003).
    - Time in cudaMemcpyAsync above 20 % of the step is transfer-bound (article 001).
    - PyTorch, memory pinning: https://docs.pytorch.org/docs/stable/data.html#memory-pinning
    - PyTorch, a guide on pin_memory and non_blocking:
      https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    """

    code, name, family = "TL104", "loader-no-pin-memory", Family.DATA
    fix_class = Applicability.SAFE
    confirmed_by = "host-to-device copies pageable, their share"
    examples = (
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=128, shuffle=True, num_workers=4)  # expect: TL104
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(20):
                for images, labels in loader:
                    images, labels = images.cuda(), labels.cuda()
                    loss = nn.functional.cross_entropy(model(images), labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            because="the batches go to CUDA, for certain",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(
                dataset,
                batch_size=128,
                shuffle=True,
                num_workers=4,
                pin_memory=True,
            )
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(20):
                for images, labels in loader:
                    images, labels = images.cuda(), labels.cuda()
                    loss = nn.functional.cross_entropy(model(images), labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            dataset = datasets.MNIST("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, num_workers=2, pin_memory=False)  # expect: TL104
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the device falls back to the CPU, so the fix is conditional",
            fixed="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            dataset = datasets.MNIST("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, num_workers=2, pin_memory=torch.cuda.is_available())
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
        ),
        invalid(
            """
            import torch
            from accelerate import Accelerator
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            accelerator = Accelerator()
            dataset = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=128, shuffle=True, num_workers=4)  # expect: TL104
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images), labels)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            """,
            because="Accelerate moves the batches and does not pin them by itself",
            fixed="""
            import torch
            from accelerate import Accelerator
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            accelerator = Accelerator()
            dataset = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(
                dataset,
                batch_size=128,
                shuffle=True,
                num_workers=4,
                pin_memory=torch.cuda.is_available(),
            )
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images), labels)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            """,
        ),
        invalid(
            """
            import torch
            import yaml
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            with open("config.yaml") as file:
                config = yaml.safe_load(file)
            images = datasets.MNIST("data", transform=transforms.ToTensor())
            loader = DataLoader(images, batch_size=64, num_workers=2, pin_memory=config["pin"])  # expect: TL104
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the configuration that the script reads turns it off",
            others={"config.yaml": "pin: false"},
        ),
        invalid(
            """
            import datasets
            from torchvision.transforms import ToTensor
            from transformers import AutoModelForImageClassification, Trainer, TrainingArguments

            images = datasets.load_dataset("cifar10", split="train")
            images.set_transform(lambda rows: {"pixel_values": [ToTensor()(one) for one in rows["img"]]})
            model = AutoModelForImageClassification.from_pretrained("google/vit-base-patch16-224")
            args = TrainingArguments("out", dataloader_num_workers=4, dataloader_pin_memory=False)  # expect: TL104
            trainer = Trainer(model=model, args=args, train_dataset=images)
            trainer.train()
            """,
            because="a Trainer pins, unless it is told not to",
            fixed="""
            import datasets
            from torchvision.transforms import ToTensor
            from transformers import AutoModelForImageClassification, Trainer, TrainingArguments

            images = datasets.load_dataset("cifar10", split="train")
            images.set_transform(lambda rows: {"pixel_values": [ToTensor()(one) for one in rows["img"]]})
            model = AutoModelForImageClassification.from_pretrained("google/vit-base-patch16-224")
            args = TrainingArguments("out", dataloader_num_workers=4)
            trainer = Trainer(model=model, args=args, train_dataset=images)
            trainer.train()
            """,
        ),
        valid(
            """
            import datasets
            from torchvision.transforms import ToTensor
            from transformers import AutoModelForImageClassification, Trainer, TrainingArguments

            images = datasets.load_dataset("cifar10", split="train")
            images.set_transform(lambda rows: {"pixel_values": [ToTensor()(one) for one in rows["img"]]})
            model = AutoModelForImageClassification.from_pretrained("google/vit-base-patch16-224")
            args = TrainingArguments("out", use_cpu=True, dataloader_num_workers=4, dataloader_pin_memory=False)
            trainer = Trainer(model=model, args=args, train_dataset=images)
            trainer.train()
            """,
            because="the Trainer stays on the CPU",
        ),
        valid(
            """
            import lightning as L
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Samples(L.LightningDataModule):
                def __init__(self, whole, **settings):
                    super().__init__()
                    settings.setdefault("pin_memory", True)
                    self.settings = settings
                    if whole:
                        self.settings["pin_memory"] = False

                def train_dataloader(self):
                    return DataLoader(torch.load("inputs.pt"), batch_size=64, num_workers=4, **self.settings)


            class Model(L.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(32, 1)

                def training_step(self, batch, index):
                    return self.layer(batch).square().mean()

                def configure_optimizers(self):
                    return torch.optim.AdamW(self.parameters())


            def train(whole):
                L.Trainer(accelerator="gpu", devices=1).fit(Model(), Samples(whole))
            """,
            because="pinned, but for the case that somebody asks for something else",
        ),
        valid(
            """
            import torch
            import yaml
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            with open("config.yaml") as file:
                config = yaml.safe_load(file)
            images = datasets.MNIST("data", transform=transforms.ToTensor())
            loader = DataLoader(images, batch_size=64, num_workers=2, pin_memory=config["pin"])
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the configuration that the script reads turns it on",
            others={"config.yaml": "pin: true"},
        ),
        valid(
            """
            import torch
            from tagging import Tagger, read_sentences
            from torch.utils.data import DataLoader

            model = Tagger().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for sentences in DataLoader(read_sentences("train.txt"), batch_size=32, num_workers=4, collate_fn=list):
                loss = model.forward_loss(sentences)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="batches are lists of whatever the dataset holds, not tensors that are copied",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Samples(Dataset):
                def __init__(self, paths):
                    self.paths = paths
                    self.device = torch.device("cuda")

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    return torch.load(self.paths[index])


            def collate(rows):
                return torch.stack(rows).cuda()


            with open("samples.txt") as file:
                dataset = Samples(file.read().split())
            loader = DataLoader(dataset, batch_size=8, shuffle=True, collate_fn=collate)
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in loader:
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the collate function moves the batch to the GPU",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, Dataset


            class Samples(Dataset):
                def __init__(self, paths):
                    self.paths = paths
                    self.device = torch.device("cuda")

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    sample = torch.load(self.paths[index])
                    sample = sample.to(self.device)
                    return sample


            with open("samples.txt") as file:
                dataset = Samples(file.read().split())
            loader = DataLoader(dataset, batch_size=8, shuffle=True)
            model = nn.Linear(8, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs in loader:
                loss = model(inputs).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the dataset moves what it reads to the GPU",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.CIFAR10("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=128, shuffle=True, num_workers=4, pin_memory=True)
            model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="it pins",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", train=True, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=2)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the job trains on the CPU",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            dataset = TensorDataset(torch.randn(4096, 20).cuda(), torch.randn(4096, 1).cuda())
            loader = DataLoader(dataset, batch_size=64, shuffle=True)
            model = nn.Linear(20, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for inputs, targets in loader:
                loss = nn.functional.mse_loss(model(inputs), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="the data lies on the GPU already",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms


            def make_loader(dataset, **kwargs):
                return DataLoader(dataset, shuffle=True, **kwargs)


            def train(dataset, options):
                loader = make_loader(dataset, **options)
                model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for images, labels in loader:
                    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()


            if __name__ == "__main__":
                import json

                with open("loader.json") as file:
                    train(datasets.MNIST("data", transform=transforms.ToTensor()), json.load(file))
            """,
            because="its arguments come from a file and may well hold pin_memory",
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms

            dataset = datasets.MNIST("data", train=False, transform=transforms.ToTensor())
            loader = DataLoader(dataset, batch_size=1000, num_workers=2)
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).cuda()
            model.load_state_dict(torch.load("model.pt"))
            correct = 0
            with torch.no_grad():
                for images, labels in loader:
                    correct += (model(images.cuda()).argmax(1) == labels.cuda()).sum().item()
            print(correct / len(dataset))
            """,
            because="an evaluation loader",
        ),
        valid(
            """
            import torch
            from graphs import GraphNet, read_graphs
            from torch.utils.data import DataLoader


            class GraphBatch:
                def __init__(self, graphs):
                    self.nodes = torch.cat([graph.nodes for graph in graphs])

                def to(self, device):
                    self.nodes = self.nodes.to(device)
                    return self


            def collate(graphs):
                return GraphBatch(graphs)


            model = GraphNet().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for batch in DataLoader(read_graphs("train"), batch_size=32, num_workers=4, collate_fn=collate):
                loss = model(batch.to("cuda")).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            because="a loader hands on objects of a class that has no pin_memory method as they are",
        ),
        *(
            valid(
                f"""
                import torch
                from torch import nn
                from torch.utils.data import DataLoader


                class Tagger(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.table = nn.Embedding(1000, 32)

                    def forward(self, sentences):
                        words = torch.tensor([sentence.words for sentence in sentences], device="cuda")
                        return self.table(words).mean()


                def train(sentences):
                    model = Tagger().cuda()
                    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                    loader = DataLoader(sentences, batch_size=32, shuffle=True, collate_fn={collate})
                    for batch in loader:
                        loss = model(batch)
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                """,
                because=f"{because}, which are no tensors as far as anyone can tell",
            )
            for collate, because in (
                ("list", "a batch is a list of the items"),
                ("lambda items: items", "a batch is the items as they are"),
            )
        ),
        valid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            model = nn.Linear(32, 8).cuda()
            optimizer = torch.optim.AdamW(model.parameters())


            def batchify(data, size):
                count = data.size(0) // size
                return data.narrow(0, 0, count * size).view(size, -1).t().contiguous()


            for texts in DataLoader(torch.load("texts.pt"), num_workers=4):
                tokens = batchify(texts.flatten(), 32)
                for start in range(0, tokens.size(0) - 1, 64):
                    inputs = tokens[start : start + 64].clone().detach().to("cuda", non_blocking=True)
                    optimizer.zero_grad()
                    loss = model(inputs).square().mean()
                    loss.backward()
                    optimizer.step()
            """,
            because="what is moved is a copy that the host makes, which is pageable whatever the batch is",
        ),
    )

    def check(self, project: Project) -> Iterator[Finding]:
        for loader in project.loaders:
            feeds = loader.trains and _may_feed_cuda(loader) and not loader.is_remade
            if feeds and loader.pins is Known.NO and not _spared(loader):
                yield self.finding(
                    loader,
                    f"{quote(loader.text)} gives batches in pageable memory, so copies to the GPU cannot overlap"
                    f"{loader.arguments.told_by('pin_memory')}",
                    help="Pass pin_memory=True",
                    confidence=_certainty(loader),
                    related=tuple(RelatedSite(move.site, "moved to the GPU here") for move in loader.transfers),
                )
        for settings in project.calls_of("transformers.TrainingArguments"):
            entry = settings.context.entry
            trainings = [one for one in project.calls_of("transformers.Trainer.train") if one.context.entry is entry]
            makes_loader = any(one.makes_loader for one in project.trainers if one.context.entry is entry)
            if trainings and not makes_loader and _turns_off(settings):
                yield self.finding(
                    settings,
                    f"{quote(settings.text)} turns off the pinned memory that the Trainer would load batches in"
                    f"{settings.arguments.told_by(ARGUMENT)}",
                    help=f"Leave {ARGUMENT} at its default",
                    confidence=settings.arguments.certainty(ARGUMENT),
                    related=tuple(RelatedSite(one.site, "the training that loads them") for one in trainings),
                )

    def fix(self, finding: Finding) -> Fix | None:
        loader = finding.subject
        if isinstance(loader, Call):
            return _left_on(loader)
        if not isinstance(loader, Loader):
            return None
        value = "True" if _surely_cuda(loader) else "torch.cuda.is_available()"
        message = f"Pass pin_memory={value}"
        told = loader.arguments.setting("pin_memory")
        if told is not None:
            return Fix(Applicability.DISPLAY, f"Turn {told.name} on", because=f"{told.file} says what it is")
        if loader.arguments.spread:
            return Fix(Applicability.DISPLAY, message, because="the loader's arguments are not all written here")
        position = POSITION if loader.library == TORCH_LOADER else None
        setting = SetArgument(loader.site, "pin_memory", value, position)
        if value == "True":
            return Fix(Applicability.SAFE, message, (setting,))
        return Fix(Applicability.SAFE, message, (setting, EnsureImport(loader.site, "torch")))

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        return judge_pageable_copies(evidence, (related.site for related in finding.related))


def _may_feed_cuda(loader: Loader) -> bool:
    """Whether its batches go to CUDA, as far as that is known."""
    is_unknown = loader.feeds_cuda is Known.UNKNOWN and not loader.hands_over_items
    return loader.feeds_cuda is Known.YES or (is_unknown and loader.context.entry.cuda is not Known.NO)


def _certainty(loader: Loader) -> Confidence:
    return loader.arguments.certainty("pin_memory") if loader.feeds_cuda is Known.YES else Confidence.LOW


def _turns_off(settings: Call) -> bool:
    """Whether a Trainer is told not to pin, and trains on a GPU."""
    given = settings.arguments
    on_cpu = given.constant("use_cpu") is True or given.constant("no_cuda") is True
    elsewhere = given.constant("do_train") is False or settings.context.under(GuardKind.DEBUG)
    may_wait = settings.context.may_use_gpu and not on_cpu
    return may_wait and not elsewhere and given.holding(ARGUMENT) is False and _is_fixed(given.setting(ARGUMENT))


def _is_fixed(setting: Option | None) -> bool:
    """Whether nobody is meant to turn a setting on: a literal, or what a file says."""
    return setting is None or setting.fixed


def _left_on(settings: Call) -> Fix:
    """Leave the Trainer's pinning on."""
    message = f"Drop {ARGUMENT}=False"
    told = settings.arguments.setting(ARGUMENT)
    if told is not None:
        return Fix(Applicability.DISPLAY, f"Turn {told.name} on", because=f"{told.file} says what it is")
    because = "somebody turned it off: it fails for data that is on the GPU already"
    return Fix(Applicability.UNSAFE, message, (RemoveArgument(settings.site, ARGUMENT),), because=because)


def _spared(loader: Loader) -> bool:
    """Whether pinning would come from a framework, be an error, do nothing, or be set up for a CPU."""
    elsewhere = loader.item_place is Place.DEVICE or loader.cannot_pin or loader.context.under(GuardKind.NOT_DEVICE)
    return elsewhere or loader.spared(Duty.PIN_MEMORY)


def _surely_cuda(loader: Loader) -> bool:
    """Whether every move of its batches goes to CUDA, without a fallback."""
    return bool(loader.transfers) and all(move.device_is_certain for move in loader.transfers)
