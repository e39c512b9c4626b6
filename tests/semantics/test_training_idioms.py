"""Whole small programs in the idioms of real repositories, each with what separates a finding from noise."""

from __future__ import annotations

import pytest
from marked_programs import check, entry, program, table

from trainlint.lint.analyze import analyze
from trainlint.semantics.project import Project, SyncKind, TokenizerWork
from trainlint.semantics.vocabulary import Confidence, GradMode, Known, Place, Region

PROGRAMS: dict[str, dict[str, str]] = {
    "a GAN with two optimizers": {
        "train.py": """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader
            from torchvision import datasets, transforms, utils

            cuda = torch.cuda.is_available()
            Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
            generator, discriminator = nn.Linear(100, 784), nn.Linear(784, 1)
            loss_function = nn.BCELoss()
            if cuda:
                generator.cuda()
                discriminator.cuda()
                loss_function.cuda()
            loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, shuffle=True)
            optimizer_g = torch.optim.Adam(generator.parameters())
            optimizer_d = torch.optim.Adam(discriminator.parameters())
            for epoch in range(200):
                for i, (images, _) in enumerate(loader):
                    valid = Tensor(images.size(0), 1).fill_(1.0)
                    real = images.type(Tensor)
                    optimizer_g.zero_grad()
                    z = torch.randn(images.shape[0], 100, device="cuda" if cuda else "cpu")
                    fake = generator(z)
                    g_loss = loss_function(discriminator(fake), valid)
                    g_loss.backward()
                    optimizer_g.step()
                    optimizer_d.zero_grad()
                    d_loss = loss_function(discriminator(real), valid)
                    d_loss = d_loss + loss_function(discriminator(fake.detach()), valid)
                    d_loss.backward()
                    optimizer_d.step()
                    print(
                        "[Epoch %d] [D loss: %f] [G loss: %f]"
                        % (epoch, d_loss.item(), g_loss.item())  # runs: per-step training, reads: device
                    )
                    if (epoch * len(loader) + i) % 400 == 0:
                        utils.save_image(fake.data[:25].cpu(), "x.png")  # runs: per-n-steps training
            """
    },
    "the classification reference with engine, meters and rank-aware print": {
        "train.py": """
            import os
            import torch
            import torch.distributed as dist
            import torchvision
            from torch import nn
            import metrics
            from distributed import init

            def train_one_epoch(model, criterion, optimizer, loader, device, epoch, print_freq):
                model.train()
                logger = metrics.MetricLogger()
                for image, target in logger.log_every(loader, print_freq, "Epoch"):
                    image, target = image.to(device), target.to(device)
                    output = model(image)
                    loss = criterion(output, target)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    acc1 = (output.argmax(1) == target).float().mean()
                    logger.update(loss=loss.item())  # runs: per-step training, reads: device
                    logger.meters["acc1"].update(acc1.item(), n=len(image))  # runs: per-step training, reads: device

            def evaluate(model, criterion, loader, device):
                model.eval()
                logger = metrics.MetricLogger()
                with torch.inference_mode():
                    for image, target in logger.log_every(loader, 100, "Test"):
                        output = model(image.to(device))
                        loss = criterion(output, target.to(device))
                        logger.update(loss=loss.item())  # runs: per-step evaluation, reads: device

            def main(args):
                init(args)
                device = torch.device(args.device)
                data = torchvision.datasets.ImageFolder("train")
                sampler = torch.utils.data.distributed.DistributedSampler(data)
                loader = torch.utils.data.DataLoader(data, sampler=sampler, num_workers=16, pin_memory=True)
                val = torch.utils.data.DataLoader(torchvision.datasets.ImageFolder("val"), num_workers=16)
                model = torchvision.models.resnet50().to(device)
                criterion = nn.CrossEntropyLoss()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                model = nn.parallel.DistributedDataParallel(model, device_ids=[args.gpu])
                for epoch in range(args.epochs):
                    sampler.set_epoch(epoch)
                    train_one_epoch(model, criterion, optimizer, loader, device, epoch, args.print_freq)
                    evaluate(model, criterion, val, device)
                    print("epoch", epoch)  # runs: per-epoch setup

            if __name__ == "__main__":
                import argparse
                parser = argparse.ArgumentParser()
                parser.add_argument("--device", default="cuda")
                parser.add_argument("--epochs", default=90, type=int)
                parser.add_argument("--print-freq", default=10, type=int)
                main(parser.parse_args())
            """,
        "distributed.py": """
            import os
            import torch
            import torch.distributed as dist

            def setup_for_distributed(is_master):
                import builtins as __builtin__
                builtin_print = __builtin__.print

                def print(*args, **kwargs):
                    force = kwargs.pop("force", False)
                    if is_master or force:
                        builtin_print(*args, **kwargs)

                __builtin__.print = print

            def init(args):
                args.rank = int(os.environ["RANK"])
                args.gpu = int(os.environ["LOCAL_RANK"])
                torch.cuda.set_device(args.gpu)
                dist.init_process_group(backend="nccl")
                setup_for_distributed(args.rank == 0)
            """,
        "metrics.py": """
            import time
            from collections import defaultdict, deque
            import torch

            class SmoothedValue:
                def __init__(self, window_size=20):
                    self.deque = deque(maxlen=window_size)
                    self.total = 0.0
                    self.count = 0

                def update(self, value, n=1):
                    self.deque.append(value)
                    self.count += n
                    self.total += value * n

                @property
                def median(self):
                    d = torch.tensor(list(self.deque))
                    return d.median().item()  # reads: host

            class MetricLogger:
                def __init__(self):
                    self.meters = defaultdict(SmoothedValue)

                def update(self, **kwargs):
                    for k, v in kwargs.items():
                        if isinstance(v, torch.Tensor):
                            v = v.item()  # reads: host
                        self.meters[k].update(v)

                def log_every(self, iterable, print_freq, header):
                    i = 0
                    for obj in iterable:
                        yield obj
                        if i % print_freq == 0:
                            print(header, i)  # runs: per-n-steps training | per-n-steps evaluation
                        i += 1
                    print("total")  # runs: per-epoch setup
            """,
    },
    "infinite data by a helper named cycle": {
        "train.py": """
            import torch
            from torch.utils.data import DataLoader, Dataset
            from tqdm import tqdm

            def cycle(loader):
                while True:
                    for data in loader:
                        yield data

            class Trainer:
                def __init__(self, model, dataset):
                    self.model = model
                    self.optimizer = torch.optim.Adam(model.parameters())
                    self.loader = cycle(DataLoader(dataset, batch_size=32))
                    self.step = 0

                def train(self):
                    with tqdm(total=1000) as pbar:
                        while self.step < 1000:
                            total = 0.0
                            for _ in range(2):
                                data = next(self.loader).cuda()
                                loss = self.model(data).mean() / 2
                                total += loss.item()  # runs: per-step training, reads: device
                                loss.backward()
                            pbar.set_description(f"loss: {total:.4f}")  # syncs: none
                            self.optimizer.step()
                            self.step += 1
                            if self.step % 100 == 0:
                                self.sample()
                            pbar.update(1)

                def sample(self):
                    self.model.eval()
                    with torch.no_grad():
                        print(self.model(torch.randn(4, 8).cuda()).tolist())  # runs: per-n-steps training
                    self.model.train()

            Trainer(torch.nn.Linear(8, 1).cuda(), torch.load("data.pt")).train()
            """
    },
    "a language model in one file, with DDP by the environment": {
        "train.py": """
            import math
            import os
            import time
            from contextlib import nullcontext
            import numpy as np
            import torch
            from torch.distributed import destroy_process_group, init_process_group
            from torch.nn.parallel import DistributedDataParallel as DDP

            eval_interval = 2000
            log_interval = 1
            gradient_accumulation_steps = 40
            device = "cuda"
            ddp = int(os.environ.get("RANK", -1)) != -1
            if ddp:
                init_process_group(backend="nccl")
                ddp_rank = int(os.environ["RANK"])
                ddp_local_rank = int(os.environ["LOCAL_RANK"])
                device = f"cuda:{ddp_local_rank}"
                torch.cuda.set_device(device)
                master_process = ddp_rank == 0
            else:
                master_process = True

            def get_batch(split):
                data = np.memmap(f"{split}.bin", dtype=np.uint16, mode="r")
                ix = torch.randint(len(data) - 8, (4,))
                x = torch.stack([torch.from_numpy((data[i : i + 8]).astype(np.int64)) for i in ix])
                return x.pin_memory().to(device, non_blocking=True)

            model = torch.nn.Linear(8, 8)
            model.to(device)
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            model = torch.compile(model)
            if ddp:
                model = DDP(model, device_ids=[ddp_local_rank])

            @torch.no_grad()
            def estimate_loss():
                out = {}
                model.eval()
                for split in ["train", "val"]:
                    losses = torch.zeros(200)
                    for k in range(200):
                        loss = model(get_batch(split)).mean()
                        losses[k] = loss.item()  # runs: per-n-steps evaluation
                    out[split] = losses.mean()
                model.train()
                return out

            X = get_batch("train")
            t0 = time.time()
            iter_num = 0
            while True:
                if iter_num % eval_interval == 0 and master_process:
                    losses = estimate_loss()
                    print(f"val loss {losses['val']:.4f}")  # runs: per-n-steps training, under: rank+interval
                for micro_step in range(gradient_accumulation_steps):
                    if ddp:
                        model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
                    loss = model(X).mean() / gradient_accumulation_steps
                    X = get_batch("train")
                    scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                t1 = time.time()
                if iter_num % log_interval == 0 and master_process:
                    lossf = loss.item() * gradient_accumulation_steps  # under: rank, reads: device
                    print(f"iter {iter_num}: loss {lossf:.4f}")  # under: rank, syncs: none
                iter_num += 1
                if iter_num > 600000:
                    break
            if ddp:
                destroy_process_group()
            """
    },
    "reinforcement learning without any loader": {
        "train.py": """
            import gymnasium as gym
            import torch
            from torch import nn, optim
            from torch.distributions import Categorical

            env = gym.make("CartPole-v1")
            policy = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 2), nn.Softmax(-1))
            optimizer = optim.Adam(policy.parameters(), lr=1e-2)
            for episode in range(1000):
                state, _ = env.reset()
                saved = []
                for t in range(1, 10000):
                    probabilities = policy(torch.from_numpy(state).float().unsqueeze(0))
                    m = Categorical(probabilities)
                    action = m.sample()
                    saved.append(m.log_prob(action))
                    state, reward, done, _, _ = env.step(action.item())  # reads: host
                    if done:
                        break
                loss = torch.cat(saved).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if episode % 10 == 0:
                    print(f"episode {episode}")  # runs: per-n-steps training
            """
    },
    "early stopping, best checkpoint and history are once per epoch": {
        "train.py": """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            class EarlyStopping:
                def __init__(self, patience):
                    self.best, self.count, self.patience = None, 0, patience

                def __call__(self, value, model):
                    if self.best is None or value < self.best:
                        print("saving")  # runs: per-epoch setup
                        torch.save(model.state_dict(), "best.pt")
                        self.best = value
                    else:
                        self.count += 1
                        print("waiting")  # runs: per-epoch setup
                    return self.count > self.patience

            def main():
                device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
                data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
                loader, val = DataLoader(data, 8), DataLoader(data, 8)
                model = nn.Linear(8, 1).to(device)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                stop, history = EarlyStopping(3), {"loss": []}
                for epoch in range(100):
                    running = 0.0
                    for x, y in loader:
                        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                        running += loss.item() * x.size(0)  # runs: per-step training, reads: device
                    history["loss"].append(running / len(data))
                    print(f"{epoch}: {running / len(data):.4f}")  # runs: per-epoch setup, syncs: none
                    model.eval()
                    with torch.no_grad():
                        total = sum(nn.functional.mse_loss(model(x.to(device)), y.to(device)) for x, y in val)
                    print(total.item())  # runs: per-epoch setup
                    if stop(total, model):
                        print("stopped")  # under: exceptional
                        break
                    model.train()

            if __name__ == "__main__":
                main()
            """
    },
    "mixed precision with gradient clipping and a scheduler": {
        "train.py": """
            import torch
            from torch import nn
            from torch.cuda.amp import GradScaler, autocast
            from torch.utils.data import DataLoader

            def train(model, loader, optimizer, scheduler, scaler, device):
                for step, batch in enumerate(loader):
                    batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
                    with autocast():
                        out = model(batch["x"])
                        loss = nn.functional.mse_loss(out, batch["y"])
                    scaler.scale(loss).backward()
                    scaler.unscale_(optimizer)
                    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    scaler.step(optimizer)
                    scaler.update()
                    scheduler.step()
                    if torch.isnan(loss):  # runs: per-step training, syncs: branch
                        raise RuntimeError("nan")
                    lr = scheduler.get_last_lr()[0]
                    print(f"{norm:.3f}")  # runs: per-step training, syncs: format
                    print(f"{lr:.6f}")  # runs: per-step training, syncs: none

            device = torch.device("cuda:0")
            model = nn.Linear(8, 1).to(device)
            optimizer = torch.optim.AdamW(model.parameters())
            train(
                model,
                DataLoader(torch.load("data.pt"), pin_memory=True),
                optimizer,
                torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100),
                GradScaler(),
                device,
            )
            """
    },
    "a contrastive queue kept in buffers": {
        "train.py": """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            class MoCo(nn.Module):
                def __init__(self, dim=128, K=65536):
                    super().__init__()
                    self.K = K
                    self.encoder = nn.Linear(8, dim)
                    self.register_buffer("queue", torch.randn(dim, K))
                    self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

                @torch.no_grad()
                def enqueue(self, keys):
                    batch_size = keys.shape[0]
                    ptr = int(self.queue_ptr)  # runs: per-step training, reads: device
                    self.queue[:, ptr : ptr + batch_size] = keys.T
                    self.queue_ptr[0] = (ptr + batch_size) % self.K

                def forward(self, x):
                    q = self.encoder(x)
                    self.enqueue(q)
                    return q.mean()

            model = MoCo().cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
            for epoch in range(200):
                for x in DataLoader(torch.load("data.pt"), batch_size=32):
                    loss = model(x.cuda(non_blocking=True))
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """
    },
}


@table({name: program(files) for name, files in PROGRAMS.items()})
def test_programs_in_the_idioms_of_real_repositories(files: dict[str, str]) -> None:
    check(files)


def analyzed(name: str) -> Project:
    return analyze(program(PROGRAMS[name]))


def test_a_replaced_print_in_another_file_is_known_to_the_entry_point() -> None:
    project = analyzed("the classification reference with engine, meters and rank-aware print")
    found = entry(project, "train.py")
    assert found.rank_aware_print
    assert found.distributed is Known.YES
    assert found.sets_epoch


def test_a_toggle_of_gradient_reduction_is_no_sync() -> None:
    project = analyzed("a language model in one file, with DDP by the environment")
    assert project.step_loops
    assert all(loop.disables_sync for loop in project.step_loops)


def test_a_loader_behind_a_helper_that_cycles_is_trained_with() -> None:
    (loader,) = analyzed("infinite data by a helper named cycle").loaders
    assert loader.trains


def test_evaluation_under_a_decorator_runs_without_gradients() -> None:
    project = analyzed("a language model in one file, with DDP by the environment")
    (sync,) = (sync for sync in project.syncs if sync.site.symbol == "estimate_loss")
    assert sync.context.grad is GradMode.DISABLED
    assert sync.context.region is Region.EVALUATION


TEXTS = """
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
optimizer = torch.optim.AdamW(model.parameters())
"""
TRAIN = """
for epoch in range(3):
    for batch in loader:
        loss = model(**{name: value.cuda() for name, value in batch.items()}).loss
        loss.backward()
        optimizer.step()
"""
TOKENIZING = {
    "lazily, behind a helper": (
        """
        def encode(text, length=128):
            return tokenizer(text, truncation=True, max_length=length)
        class Lazy(Dataset):
            def __init__(self, rows):
                self.rows = rows
            def __len__(self):
                return len(self.rows)
            def __getitem__(self, index):
                return encode(self.rows[index])
        loader = DataLoader(Lazy(["a"]), batch_size=8)
        """,
        {(Region.DATA, TokenizerWork.ENCODE)},
    ),
    "eagerly, behind the same helper": (
        """
        def encode(text, length=128):
            return tokenizer(text, truncation=True, max_length=length)
        class Eager(Dataset):
            def __init__(self, rows):
                self.rows = [encode(row) for row in rows]
            def __len__(self):
                return len(self.rows)
            def __getitem__(self, index):
                return self.rows[index]
        loader = DataLoader(Eager(["a"]), batch_size=8)
        """,
        {(Region.SETUP, TokenizerWork.ENCODE)},
    ),
    "in a collate function": (
        """
        def collate(rows):
            return tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
        loader = DataLoader(load_dataset("imdb")["train"], batch_size=8, collate_fn=collate)
        """,
        {(Region.COLLATE, TokenizerWork.ENCODE)},
    ),
    "a collate function that only pads": (
        """
        def collate(rows):
            return tokenizer.pad(rows, return_tensors="pt")
        loader = DataLoader(torch.load("tokens.pt"), batch_size=8, collate_fn=collate)
        """,
        {(Region.COLLATE, TokenizerWork.PAD)},
    ),
    "in the step": (
        """
        class Wrapped:
            def __iter__(self):
                for row in load_dataset("imdb")["train"]:
                    yield row
        loader = []
        for row in DataLoader(load_dataset("imdb")["train"], batch_size=8):
            batch = tokenizer(row["text"], padding=True, return_tensors="pt")
            model(**batch.to("cuda")).loss.backward()
            optimizer.step()
        """,
        {(Region.TRAINING, TokenizerWork.ENCODE)},
    ),
}


@pytest.mark.parametrize(("making", "expected"), TOKENIZING.values(), ids=TOKENIZING.keys())
def test_where_texts_are_tokenized(making: str, expected: set[tuple[Region, TokenizerWork]]) -> None:
    project = analyze({"train.py": TEXTS + program({"x.py": making})["x.py"] + TRAIN})
    found = {(record.context.region, record.work) for record in project.tokenizations}
    assert found == expected


def test_the_work_of_a_tokenizer_of_the_project_is_a_part_of_its_call() -> None:
    project = analyze(
        program(
            {
                "words.py": """
                    from transformers import AutoTokenizer

                    def encode_all(texts, encode_fn, tokenizer):
                        return [tokenizer(text) for text in texts]

                    class WordTokenizer:
                        def __init__(self):
                            self.tokenizer = AutoTokenizer.from_pretrained("gpt2")

                        def __call__(self, texts):
                            return self.encode(texts) + encode_all(texts, None, self.tokenizer)

                        def encode(self, texts):
                            return self.tokenizer(texts)
                    """,
                "data.py": """
                    from torch.utils.data import Dataset
                    from transformers import AutoTokenizer
                    from words import WordTokenizer

                    class Texts(Dataset):
                        def __init__(self, texts):
                            self.texts = texts
                            self.tokenizer = WordTokenizer()
                            self.other = AutoTokenizer.from_pretrained("gpt2")

                        def __len__(self):
                            return len(self.texts)

                        def __getitem__(self, index):
                            return self.tokenizer(self.texts[index]), self.other(self.texts[index])
                    """,
            }
        )
    )
    whole = {(item.site.path.name, item.text) for item in project.tokenizations if not item.part_of_another}
    assert whole == {("data.py", "self.tokenizer(self.texts[index])"), ("data.py", "self.other(self.texts[index])")}
    assert any(item.part_of_another for item in project.tokenizations)


@pytest.mark.parametrize(
    ("file", "sure"),
    [
        ("texts.py", True),
        ("convert_texts.py", False),
        ("texts_to_mds.py", False),
        ("evals.py", False),
        ("evaluated.py", True),
    ],
)
def test_what_a_file_that_converts_data_or_evaluates_does_for_each_item_is_done_once(file: str, sure: bool) -> None:
    text = """
from torch.utils.data import IterableDataset

class Texts(IterableDataset):
    def __init__(self, paths, tokenizer):
        self.paths, self.tokenizer = paths, tokenizer

    def __iter__(self):
        for path in self.paths:
            yield self.tokenizer(open(path).read())
"""
    (found,) = analyze({file: text}).tokenizations
    assert found.certainty is (Confidence.MEDIUM if sure else Confidence.LOW)


MAPPED = {
    "a function": "encode",
    "a lambda": 'lambda rows: tokenizer(rows["text"], truncation=True)',
    "a lambda by name": 'function=lambda rows: tokenizer(rows["text"], truncation=True)',
}


@pytest.mark.parametrize("function", MAPPED.values(), ids=MAPPED)
def test_mapping_a_dataset_once_is_no_work_per_sample(function: str) -> None:
    making = f"""
def encode(rows):
    return tokenizer(rows["text"], truncation=True)
data = load_dataset("imdb")["train"].map({function}, batched=True)
loader = DataLoader(data, batch_size=8, collate_fn=DataCollatorWithPadding(tokenizer))
"""
    project = analyze({"train.py": TEXTS + making + TRAIN})
    assert any(record.text == 'tokenizer(rows["text"], truncation=True)' for record in project.tokenizations)
    regions = {record.context.region for record in project.tokenizations if record.work is TokenizerWork.ENCODE}
    assert not regions & {Region.COLLATE, Region.TRAINING}
    assert all(record.context.frequency.label != "per-sample" or record.cached for record in project.tokenizations)


KEPT = {
    "a running total": ("total = total + loss", 1),
    "an augmented total": ("total += loss", 1),
    "a list": ("history.append(loss)", 1),
    "detached": ("total += loss.detach()", 0),
    "a number": ("total += loss.item()", 0),
    "a list of numbers": ("history.append(loss.item())", 0),
    "a tensor without a graph": ("total += (outputs.argmax(1) == targets).sum()", 0),
    "under no_grad": ("with torch.no_grad(): total += model(inputs).mean()", 0),
}


@pytest.mark.parametrize(("statement", "count"), KEPT.values(), ids=KEPT.keys())
def test_graphs_that_outlive_the_step(statement: str, count: int) -> None:
    text = f"""
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    total, history = 0, []
    for inputs, targets in DataLoader(torch.load("data.pt")):
        inputs, targets = inputs.cuda(), targets.cuda()
        outputs = model(inputs)
        loss = torch.nn.functional.cross_entropy(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {statement}
    print(total, history)
"""
    assert len(analyze({"train.py": text}).kept_graphs) == count


def test_a_count_that_weighs_the_loss_has_no_graph() -> None:
    text = """
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tokens = 0
for batch in DataLoader(torch.load("data.pt")):
    labels = batch["labels"].cuda()
    count = (labels != -100).sum()
    tokens += count
    loss = model(batch["x"].cuda()).sum() * count
    loss.backward()
    optimizer.step()
"""
    assert analyze({"train.py": text}).kept_graphs == []


def test_what_a_loss_function_returns_beside_the_loss_is_not_known_to_carry_the_graph() -> None:
    text = """
import torch
from torch.utils.data import DataLoader

def main(loss_fn):
    model = torch.nn.Linear(8, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rewards, losses = 0, 0
    for inputs in DataLoader(torch.load("data.pt")):
        loss, chosen = loss_fn(model(inputs.cuda()))
        loss.backward()
        optimizer.step()
        rewards += chosen.mean()
        losses += loss
"""
    assert [kept.target for kept in analyze({"train.py": text}).kept_graphs] == ["losses"]


def test_unit_tests_are_no_training() -> None:
    text = """
import pytest
import torch

def {name}():
    model = torch.nn.Linear(8, 2).cuda()
    for _ in range(100):
        loss = model(torch.randn(4, 8)).sum()
        loss.backward()
        print(loss.item())
"""
    found = {name: len(analyze({"a.py": text.format(name=name)}).reports) for name in ("test_it", "fit")}
    assert found == {"test_it": 0, "fit": 1}


def test_a_list_of_what_the_layers_of_one_forward_return_is_no_list_of_losses() -> None:
    text = """
import torch
from torch.utils.data import DataLoader

def predict(layers, x):
    outputs = []
    for layer in layers:
        x = layer(x)
        outputs.append(x)
    return outputs

model = torch.nn.ModuleList([torch.nn.Linear(8, 8).cuda()])
model.eval()
for inputs in DataLoader(torch.load("data.pt")):
    predict(model, inputs.cuda())
"""
    assert analyze({"train.py": text}).kept_graphs == []


RESUMING = {
    "from nothing or from what an option names": (
        "GPT2LMHeadModel.from_pretrained(args.start) if args.start else GPT2LMHeadModel(GPT2Config())",
        Known.UNKNOWN,
    ),
    "by the module that defines the model": (
        "transformers.modeling_gpt2.GPT2LMHeadModel.from_pretrained(args.start) if args.start "
        "else transformers.modeling_gpt2.GPT2LMHeadModel(config=GPT2Config())",
        Known.UNKNOWN,
    ),
    "from nothing": ("GPT2LMHeadModel(GPT2Config())", Known.NO),
    "from published weights": ("GPT2LMHeadModel.from_pretrained(args.start)", Known.NO),
}


@pytest.mark.parametrize(("model", "resumed"), RESUMING.values(), ids=RESUMING.keys())
def test_whether_a_script_goes_on_with_what_it_saved(model: str, resumed: Known) -> None:
    text = f"""
import argparse
import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel
parser = argparse.ArgumentParser()
parser.add_argument("--start", default="")
args = parser.parse_args()
model = {model}
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for inputs in torch.utils.data.DataLoader(torch.load("data.pt")):
        model(inputs.cuda()).loss.backward()
        optimizer.step()
    model.save_pretrained("epoch-%d" % epoch)
"""
    (checkpoint,) = analyze({"train.py": text}).checkpoints
    assert checkpoint.resumed is resumed


STEPS = {
    "a list that outlives the step": ("self.outputs.append(loss)", 1),
    "a total that outlives the step": ("self.total += loss", 1),
    "detached": ("self.outputs.append(loss.detach())", 0),
    "an attribute of this step": ("self.total = 0; self.total += loss", 0),
    "a local list": ("outputs = []; outputs.append(loss)", 0),
}


@pytest.mark.parametrize(("statement", "count"), STEPS.values(), ids=STEPS.keys())
def test_graphs_that_outlive_a_step_of_a_framework(statement: str, count: int) -> None:
    text = f"""
import lightning
import torch

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(8, 2)
        self.outputs = []
        self.total = 0

    def training_step(self, batch, batch_idx):
        loss = self.body(batch).mean()
        {statement}
        return loss

    def validation_step(self, batch, batch_idx):
        loss = self.body(batch).mean()
        self.outputs.append(loss)

lightning.Trainer().fit(Model())
"""
    assert len(analyze({"train.py": text}).kept_graphs) == count


def test_a_sum_of_losses_that_is_backpropagated_is_known_to_be() -> None:
    text = """
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs in DataLoader(torch.load("data.pt")):
    total = 0
    for part in inputs.cuda().chunk(4):
        total += model(part).mean()
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
"""
    assert all(kept.backpropagated for kept in analyze({"train.py": text}).kept_graphs)


@pytest.mark.parametrize(("imported", "calls"), [("torch", 1), ("tensorflow", 0), ("keras.layers", 0)])
def test_a_model_that_only_its_name_tells_is_no_model_of_torch_beside_another_library(
    imported: str, calls: int
) -> None:
    text = f"""
import torch
import {imported}
from torch.utils.data import DataLoader

def evaluate(model, loader):
    for batch in loader:
        model(batch["image"].cuda())

evaluate(load_model(), DataLoader(torch.load("data.pt")))
"""
    assert len(analyze({"evaluate.py": text}).evaluations) == calls


SAME_FILE = {
    "a literal": ('torch.save(model.state_dict(), "model.pt")', True),
    "by keyword": ('torch.save(obj=model.state_dict(), f="model.pt")', True),
    "an epoch and a setting": (
        'torch.save(model.state_dict(), os.path.join(args.out, "epoch_{}.pt".format(epoch)))',
        True,
    ),
    "a path object": ('torch.save(model.state_dict(), Path(args.out) / f"{epoch}.pt")', True),
    "a variable": ('path = args.out + "/model.pt"; torch.save(model.state_dict(), path)', True),
    "through a function": ('write(f"{args.out}/{epoch}.pt")', True),
    "the default of a function": ("write()", True),
    "the rank": ('torch.save(model.state_dict(), f"{rank}.pt")', False),
    "the rank, some assignments away": (
        'part = str(rank); path = "model" + part; torch.save(model.state_dict(), path)',
        False,
    ),
    "the rank, added later": ('path = "model"; path += f"_{rank}"; torch.save(model.state_dict(), path)', False),
    "the rank, through a function": ('write(f"{rank}.pt")', False),
    "the rank, put into a setting": (
        'args.out = f"{args.out}/{rank}"; torch.save(model.state_dict(), args.out + "/model.pt")',
        False,
    ),
    "a score": ('torch.save(model.state_dict(), f"{score:.2f}.pt")', False),
    "a process": ('torch.save(model.state_dict(), f"{os.getpid()}.pt")', False),
    "an open file": ('torch.save(model.state_dict(), open("model.pt", "wb"))', False),
    "unknown arguments": ("torch.save(*found)", False),
}


@pytest.mark.parametrize(("statement", "same"), SAME_FILE.values(), ids=SAME_FILE)
def test_whether_all_ranks_write_to_the_same_file(statement: str, same: bool) -> None:
    script = f"""
    import argparse, os
    from pathlib import Path
    import torch

    model = torch.nn.Linear(8, 1)
    found = model.state_dict(), "model.pt"


    def write(path="model.pt"):
        torch.save(model.state_dict(), path)


    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--out", default="out")
        args = parser.parse_args()
        rank = torch.distributed.get_rank()
        for epoch in range(3):
            score = evaluate(epoch)
            {statement}


    main()
    """
    (checkpoint,) = analyze(program({"train.py": script})).checkpoints
    assert checkpoint.same_file is same


def test_the_switch_of_a_scaler_is_no_loss() -> None:
    text = """
import torch
from torch.amp import GradScaler


def make_step(model, criterion, optimizer, config):
    every = config.get("accumulation_steps", 1)
    half = config.get("half", True)
    scaler = GradScaler(enabled=half)

    def step(state, batch):
        loss = criterion(model(batch.cuda()))
        scaler.scale(loss).backward()
        if state.iteration % every == 0:
            scaler.step(optimizer)
            scaler.update()

    return step
"""
    assert analyze({"train.py": text}).syncs == []


UNIT_TESTS = {
    "a method of a test case": ("test_layers.py", "class LayerTest(Base):\n    def test_step(self):\n        {body}\n"),
    "a function in a file of tests": ("test_layers.py", "def test_step():\n    {body}\n"),
    "a helper of the tests": ("test_layers.py", "import pytest\n\n\ndef run_step():\n    {body}\n"),
    "a helper beside comparisons of arrays": (
        "test_layers.py",
        "from numpy.testing import assert_allclose\n\n\ndef run_step():\n    {body}\n",
    ),
    "what test cases share": ("layers.py", "class ModelTestCase(Base):\n    def run_step(self):\n        {body}\n"),
    "what test cases of a library's base share": (
        "layers.py",
        "from absl.testing.parameterized import TestCase\n\n\n"
        "class Checks(TestCase):\n    def run_step(self):\n        {body}\n",
    ),
    "a helper of tests that a framework of its own runs": (
        "test_layers.py",
        "def run_step():\n    {body}\n\n\ndef test_step():\n    run_step()\n",
    ),
    "tests that run without a framework": (
        "test_layers.py",
        "def test_step():\n    for _ in range(3):\n        {body}\n\n\nif __name__ == '__main__':\n    test_step()\n",
    ),
    "a test case in a file that is called a test": (
        "layers_test.py",
        "class LayerTest(Base):\n    def test_step(self):\n        run_step()\n\n\ndef run_step():\n    {body}\n",
    ),
    "a test in any file": ("layers.py", "import pytest\n\n\ndef test_step():\n    {body}\n"),
}
BODY_OF_TEST = "loss = layer(torch.ones(2, 8).cuda()).sum(); loss.backward(); optimizer.step(); print(loss.item())"


@pytest.mark.parametrize(("file", "text"), UNIT_TESTS.values(), ids=UNIT_TESTS.keys())
def test_what_a_unit_test_does_is_no_step(file: str, text: str) -> None:
    project = analyze({file: "import torch\nfrom base import Base\n\n" + text.format(body=BODY_OF_TEST)})
    assert project.reports == [] and project.syncs == []


def test_a_step_in_a_file_that_tests_a_model_is_one() -> None:
    text = "import torch\n\n\ndef step(layer, optimizer):\n    " + BODY_OF_TEST + "\n"
    assert analyze({"test_layers.py": text}).reports


def test_a_script_that_trains_and_tests_is_no_file_of_unit_tests() -> None:
    text = (
        "import torch\n\n\ndef test_epoch(layer):\n    layer.eval()\n\n\ndef main():\n    for _ in range(100):\n"
        f"        {BODY_OF_TEST}\n    test_epoch(layer)\n\n\nif __name__ == '__main__':\n    main()\n"
    )
    assert analyze({"train_and_test.py": text}).reports


LOADERS_OF_TESTS = {
    "a file of unit tests": ("test_training.py", "test_training", 0),
    "a script": ("training.py", "test_training", 1),
    "a script among tests that is one of them": ("tests/scripts/test_training.py", "main", 0),
    "a script among tests that is none of them": ("tests/scripts/training.py", "main", 1),
    "a script that is called a test": ("scripts/test_training.py", "main", 1),
}


@pytest.mark.parametrize(("file", "name", "count"), LOADERS_OF_TESTS.values(), ids=LOADERS_OF_TESTS.keys())
def test_what_unit_tests_train_on_is_no_training_loader(file: str, name: str, count: int) -> None:
    text = f"""
import torch
from torch.utils.data import DataLoader

def make_loader():
    return DataLoader(torch.load("data.pt"), batch_size=16)

def {name}():
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs in make_loader():
        model(inputs.cuda()).sum().backward()
        optimizer.step()

if __name__ == "__main__":
    {name}()
"""
    assert len([loader for loader in analyze({file: text}).loaders if loader.trains]) == count


TPU_LOOPS = {
    "a plain loop": """
for images in loader:
    loss = model(images.to(device)).mean()
    loss.backward()
    xm.optimizer_step(optimizer)
    print(loss.item())
""",
    "an engine of ignite": """
from ignite.engine import create_supervised_trainer
trainer = create_supervised_trainer(
    model, optimizer, criterion, device=device, output_transform=lambda x, y, pred, loss: loss.item()
)
trainer.run(loader)
""",
}


@pytest.mark.parametrize("loop", TPU_LOOPS.values(), ids=TPU_LOOPS.keys())
def test_a_script_for_a_tpu_waits_for_no_gpu(loop: str) -> None:
    head = """
import torch
import torch_xla.core.xla_model as xm
from torch import nn
from torch.utils.data import DataLoader

device = xm.xla_device()
model = nn.Linear(8, 1).to(device)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.randn(64, 8), batch_size=8)
"""
    project = analyze({"train.py": head + loop})
    assert not [sync.text for sync in project.syncs if sync.on_device and sync.context.may_use_gpu]
    assert project.loaders[0].feeds_cuda is not Known.YES


WRAPPED = {
    "a model": "scorer = AutoModel.from_pretrained(NAME)",
    "a wrapped one": "scorer = FullyShardedDataParallel(AutoModel.from_pretrained(NAME))",
    "one that is handed to DeepSpeed": "scorer, *_ = deepspeed.initialize(model=AutoModel.from_pretrained(NAME))",
}


@pytest.mark.parametrize("making", WRAPPED.values(), ids=WRAPPED.keys())
def test_what_is_no_module_is_no_model_however_a_module_would_be_wrapped(making: str) -> None:
    text = f"""
import deepspeed
import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.utils.data import DataLoader
from transformers import AutoModel

from scores import NAME, plainly

scorer = plainly
if NAME is not None:
    {making}

for inputs in DataLoader(torch.load("held_out.pt")):
    if isinstance(scorer, torch.nn.Module):
        with torch.no_grad():
            scores = scorer(inputs.cuda())
    else:
        scores = scorer(inputs=inputs)
"""
    assert analyze({"evaluate.py": text}).evaluations == []


FRAMEWORKS = {"torch": ("import torch", 1), "another one": ("import jax", 0), "both": ("import jax\nimport torch", 1)}


@pytest.mark.parametrize(("imports", "count"), FRAMEWORKS.values(), ids=FRAMEWORKS.keys())
def test_a_step_of_another_framework_is_none_of_torch(imports: str, count: int) -> None:
    text = f"""
{imports}

def update(model, optimizer, batch):
    loss = model(batch.to("cuda")).mean()
    loss.backward()
    optimizer.update()
    return loss.item()
"""
    assert len(analyze({"updating.py": text}).syncs) == count


UPDATE = """
def train_epoch(model, optimizer, loader):
    for batch in loader:
        values = model(batch)
        optimizer.step()
        print(values.max().item())
"""
ARRAYS = {
    "torch": ("import torch\n", True),
    "jax": ("import jax\n", False),
    "both": ("import jax\nimport torch\n", True),
}


@pytest.mark.parametrize(("imports", "reads"), ARRAYS.values(), ids=ARRAYS.keys())
def test_names_say_nothing_of_torch_where_a_file_computes_with_another_library(imports: str, reads: bool) -> None:
    train = "import torch\nimport agent\n\ntorch.cuda.set_device(0)\n"
    assert bool(analyze({"agent.py": imports + UPDATE, "train.py": train}).syncs) is reads


def test_keys_of_figures_are_no_tensors() -> None:
    text = """
import torch
from torch import nn

model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs in torch.utils.data.DataLoader(torch.randn(64, 8)):
    output = model(inputs.cuda())
    output.loss.backward()
    optimizer.step()
    for key in output.figures_keys:
        print(f"{key}_train")
    for figure in output.figures:
        print(f"{figure}_train")
"""
    assert [sync.site.row for sync in analyze({"train.py": text}).syncs] == [
        text[: text.index("{figure}")].count("\n") + 1
    ]


@pytest.mark.parametrize(
    ("unpacked", "test", "branches"),
    [
        ("parts, _, dataloader_idx", "dataloader_idx == 0", 0),
        ("parts, _, batch_idx", "batch_idx > 0", 0),
        ("parts, _, kinds", "kinds > 0", 1),
        ("parts, _, kinds", "parts.num_graphs // 2 > 3", 0),
        ("parts, _, kinds", "parts.weights // 2 > 3", 1),
    ],
)
def test_numbers_that_come_along_with_a_batch_are_none_of_its_tensors(unpacked: str, test: str, branches: int) -> None:
    text = f"""
import lightning

class Model(lightning.LightningModule):
    def training_step(self, batch, number):
        {unpacked} = batch
        if {test}:
            pass
        return parts.sum()

lightning.Trainer(accelerator="gpu").fit(Model(), loader)
"""
    syncs = analyze({"train.py": text}).syncs
    assert sum(sync.kind is SyncKind.BRANCH and sync.value.place is Place.DEVICE for sync in syncs) == branches


def test_a_module_that_a_function_of_a_forward_calls_is_a_part_of_the_model() -> None:
    text = """
import torch
from torch import nn

def spike(x, surrogate):
    return surrogate(x - 1)

class Neuron(nn.Module):
    def __init__(self):
        super().__init__()
        self.surrogate = nn.Linear(8, 8)

    def forward(self, x):
        return spike(x, self.surrogate)

def evaluate(model, loader):
    model.eval()
    for batch in loader:
        model(batch)

evaluate(Neuron().cuda(), torch.utils.data.DataLoader(torch.load("data.pt")))
"""
    assert [forward.text for forward in analyze({"evaluate.py": text}).evaluations] == ["model(batch)"]
