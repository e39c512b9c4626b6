"""What the generated projects are made of: templates of modules and of definitions."""

from __future__ import annotations

CORE = '''
"""Tools that all parts of the repository share: meters, logging, checkpoints, schedules."""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections import defaultdict, deque

import torch
import torch.distributed as dist

$imports

logger = logging.getLogger(__name__)


class Meter:
    """Keeps the last values of a series, and their mean over all of it."""

    def __init__(self, window_size=$n0, fmt="{median:.4f} ({global_avg:.4f})"):
        self.deque = deque(maxlen=window_size)
        self.total = 0.0
        self.count = 0
        self.fmt = fmt

    def update(self, value, n=1):
        self.deque.append(value)
        self.count += n
        self.total += value * n

    @property
    def global_avg(self):
        return self.total / max(self.count, 1)


def is_main_process():
    """Whether this process is the one that prints and saves."""
    if not dist.is_available() or not dist.is_initialized():
        return True
    return dist.get_rank() == 0


def save_checkpoint(model, optimizer, epoch, path):
    """Write all that is needed to resume."""
    if is_main_process():
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, os.path.join(path, f"checkpoint_{epoch:04d}.pth"))


def adjust_learning_rate(optimizer, epoch, lr, warmup=$n1, epochs=$n2):
    """Decay the learning rate with half-cycle cosine after warmup."""
    if epoch < warmup:
        lr = lr * epoch / warmup
    else:
        lr = lr * 0.5 * (1.0 + math.cos(math.pi * (epoch - warmup) / max(epochs - warmup, 1)))
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("lr_scale", 1.0)
    return lr
'''

TOOLS = (
    '''
def $name(${w0}_path, $w1=1.0, *, $w2=None):
    """Return the $w0 of a $w1.

    Args:
        ${w0}_path: folder that holds the $w0 files.
        $w1: factor that the values are scaled by.
        $w2: values to start from, by name; those of the defaults if there are none.

    Returns:
        The total, the $w0, and the $w1 with its sign.
    """
    # The defaults are those of the first release; later ones kept them.
    if $w2 is None:
        $w2 = {"$w0": $w1, "limit": $n0}
    $w0 = os.path.join(${w0}_path, "$w1.txt")
    total = 0.0
    for index, value in enumerate(sorted($w2.values())):
        if index % $n1 == 0 and value is not None:
            total += math.sqrt(abs(value)) * $f0
        elif isinstance(value, str):
            raise ValueError(f"{value} is no number in {$w0}")
    return [total, $w0, $w1 if total > $n2 else -$w1]
''',
    '''
class $Name:
    """Reads $w0 records from a table, and writes them back with their $w1."""

    columns = ("$w0", "$w1", "$w2", "$w3")

    def __init__(self, path, *, strict=True):
        self.path = path
        self.strict = strict
        self.rows = []
        self._by_$w0 = {}

    def read(self):
        """Read the rows; a row without $w1 is left out unless the reader is strict."""
        with open(self.path, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                parts = line.rstrip("\\n").split("\\t")
                if len(parts) != len(self.columns):
                    if self.strict:
                        raise ValueError(f"{self.path}:{number}: {len(parts)} columns")
                    continue
                row = dict(zip(self.columns, parts))
                self.rows.append(row)
                self._by_$w0.setdefault(row["$w0"], []).append(row)
        return self

    def select(self, $w0, *, limit=$n0):
        """Return the rows of one $w0, the largest $w1 first."""
        rows = sorted(self._by_$w0.get($w0, ()), key=lambda row: -float(row["$w1"]))
        return rows[:limit]

    def write(self, path):
        # Rows are written in the order in which they were read.
        with open(path, "w", encoding="utf-8") as file:
            for row in self.rows:
                file.write("\\t".join(row[column] for column in self.columns) + "\\n")
''',
    '''
def format_$name(values, precision=$n0):
    """Return a table of $w0 and $w1 as text, one $w2 on a line."""
    lines = []
    width = max((len(name) for name in values), default=0)
    for name, ($w0, $w1) in values.items():
        share = $w0 / $w1 if $w1 else 0.0
        lines.append(f"{name:<{width}}  {$w0:>10.3f}  {$w1:>10.3f}  {share:>7.1%}")
    if not lines:
        return "nothing"
    header = f"{'$w2':<{width}}  {'$w0':>10}  {'$w1':>10}  {'share':>7}"
    return "\\n".join([header, "-" * len(header), *lines])
''',
)

_IMPORTS = """
from __future__ import annotations

import logging
import math
import os
import random
from functools import partial
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F

$imports

logger = logging.getLogger(__name__)
"""

MAIN = {
    "models": '"""A network of the repository and the layers it is made of."""\n'
    + _IMPORTS
    + '''

class Network(nn.Module):
    """A small transformer over patches.

    The first layers keep the resolution, the last ones halve it, so that the head sees a short sequence.
    """

    def __init__(self, width: int = $n0, depth: int = 6, heads: int = 8, classes: int = 1000, drop: float = 0.1):
        super().__init__()
        self.stem = nn.Conv2d(3, width, kernel_size=16, stride=16)
        self.position = nn.Parameter(torch.zeros(1, $n1, width))
        self.layers = nn.ModuleList(
            [nn.TransformerEncoderLayer(width, heads, 4 * width, drop, batch_first=True) for _ in range(depth)]
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x, mask: Optional[torch.Tensor] = None):
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = x + self.position[:, : x.shape[1]]
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=mask)
        return self.head(self.norm(x).mean(dim=1))


def build(width: int = $n2, **options):
    """Make the network that the scripts train."""
    return Network(width, **options)
''',
    "data": '"""A dataset of the repository and the transforms it needs."""\n'
    + _IMPORTS
    + '''
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    """Samples of one split, as files in a folder: `split/class/name.pt`."""

    def __init__(self, folder, split="train", transform=None):
        self.folder = os.path.join(folder, split)
        self.classes = sorted(os.listdir(self.folder))
        self.files = [
            (os.path.join(self.folder, name, file), label)
            for label, name in enumerate(self.classes)
            for file in sorted(os.listdir(os.path.join(self.folder, name)))
        ]
        self.transform = transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path, label = self.files[index]
        sample = torch.load(path, map_location="cpu")
        if self.transform is not None:
            sample = self.transform(sample)
        return sample, label


def make_loader(args, split, sampler=None):
    """Make the loader of one split."""
    dataset = Samples(args.folder, split)
    return DataLoader(
        dataset,
        batch_size=args.batch_size,
        sampler=sampler,
        shuffle=sampler is None and split == "train",
        num_workers=args.workers,
        pin_memory=True,
        persistent_workers=True,
        drop_last=split == "train",
    )
''',
    "losses": '"""A loss of the repository."""\n'
    + _IMPORTS
    + '''

class Criterion(nn.Module):
    """Cross entropy with a margin for $w0."""

    def __init__(self, margin: float = $f0, smoothing: float = 0.1):
        super().__init__()
        self.margin = margin
        self.smoothing = smoothing

    def forward(self, outputs, targets):
        entropy = F.cross_entropy(outputs, targets, label_smoothing=self.smoothing)
        distance = (outputs.softmax(dim=-1).amax(dim=-1) - self.margin).clamp(min=0)
        return entropy + $f1 * distance.mean()
''',
    "engines": '"""The loops that train and evaluate."""\n'
    + _IMPORTS
    + '''
from generated.core import core_0 as tools


def train_one_epoch(model, criterion, loader, optimizer, scaler, device, epoch, args):
    """Train for one epoch and return the mean loss."""
    model.train()
    losses = tools.Meter()
    for step, (samples, targets) in enumerate(loader):
        if step % args.accumulate == 0:
            tools.adjust_learning_rate(optimizer, step / len(loader) + epoch, args.lr)
        samples = samples.to(device, non_blocking=True)
        targets = targets.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(samples), targets)
        loss = loss / args.accumulate
        scaler.scale(loss).backward()
        if (step + 1) % args.accumulate == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
        losses.update(loss.item())
        if step % args.log_every == 0:
            logger.info("epoch %d step %d loss %.4f lr %.6f", epoch, step, loss.item(), optimizer.param_groups[0]["lr"])
    return losses.global_avg


@torch.no_grad()
def evaluate(model, criterion, loader, device):
    """Return the mean loss and the accuracy over a loader."""
    model.eval()
    total, correct, count = 0.0, 0, 0
    for samples, targets in loader:
        samples, targets = samples.to(device), targets.to(device)
        outputs = model(samples)
        total += criterion(outputs, targets).item() * len(targets)
        correct += (outputs.argmax(dim=1) == targets).sum().item()
        count += len(targets)
    return total / count, correct / count
''',
    "tools": '"""Small things that scripts of this part need."""\n' + _IMPORTS,
}

_LAYER = '''
class $Name(nn.Module):
    """A $w0 block with a gate for $w1.

    The gate starts closed, so that a deep stack begins as the identity.
    """

    def __init__(self, width: int, heads: int = $n0, ratio: float = $f0, bias: bool = True):
        super().__init__()
        if width % heads:
            raise ValueError(f"{width} is not divisible by {heads}")
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.proj = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.gate = nn.Parameter(torch.zeros(width))
        self.drop = nn.Dropout(ratio)

    def forward(self, x, mask=None):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (query @ key.transpose(-2, -1)) * self.scale
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :], float("-inf"))
        # The gate comes last: scores would be scaled twice otherwise.
        out = (self.drop(scores.softmax(dim=-1)) @ value).transpose(1, 2).reshape(batch, length, width)
        return x + torch.tanh(self.gate) * self.proj(out)
'''

_CONVOLUTION = '''
class $Name(nn.Module):
    """Two convolutions around a bottleneck of a ${w0}."""

    expansion = 4

    def __init__(self, in_channels, channels, stride=1, downsample=None, norm_layer=nn.BatchNorm2d):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, kernel_size=1, bias=False)
        self.bn1 = norm_layer(channels)
        self.conv2 = nn.Conv2d(channels, channels, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn2 = norm_layer(channels)
        self.conv3 = nn.Conv2d(channels, channels * self.expansion, kernel_size=1, bias=False)
        self.bn3 = norm_layer(channels * self.expansion)
        self.downsample = downsample
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + identity)


def ${name}_stack(depth=$n0, width=$n1, **options):
    """Return a stack of blocks; `options` go to each of them."""
    layers = []
    for index in range(depth):
        stride = 2 if index % $n2 == 0 else 1
        layers.append($Name(width * $Name.expansion, width, stride=stride, **options))
    return nn.Sequential(*layers)
'''

_TRANSFORM = '''
class $Name:
    """Shifts the $w0 of a sample by a random $w1, with probability `p`."""

    def __init__(self, limit=$n0, p=0.5, fill=$f0):
        self.limit = limit
        self.p = p
        self.fill = fill

    def __call__(self, sample):
        if random.random() > self.p:
            return sample
        height, width = sample.shape[-2:]
        shift = random.randint(-self.limit, self.limit)
        # Samples smaller than the shift are left alone.
        if abs(shift) >= min(height, width):
            return sample
        moved = torch.full_like(sample, self.fill)
        if shift >= 0:
            moved[..., shift:] = sample[..., : width - shift]
        else:
            moved[..., :shift] = sample[..., -shift:]
        return moved

    def __repr__(self):
        return f"{type(self).__name__}(limit={self.limit}, p={self.p})"
'''

_COLLATE = '''
def collate_$name(batch, pad=0, multiple_of=$n0):
    """Pad sequences of $w0 to the length of the longest, rounded up for the tensor cores."""
    longest = max(len(tokens) for tokens, _ in batch)
    longest = math.ceil(longest / multiple_of) * multiple_of
    padded = torch.full((len(batch), longest), pad, dtype=torch.long)
    mask = torch.ones(len(batch), longest, dtype=torch.bool)
    for row, (tokens, _) in enumerate(batch):
        padded[row, : len(tokens)] = torch.as_tensor(tokens)
        mask[row, : len(tokens)] = False
    labels = torch.tensor([label for _, label in batch])
    return {"tokens": padded, "mask": mask, "labels": labels}
'''

_LOSS = '''
def $name(outputs, targets, weight=$f0, reduction="mean"):
    """Return the $w0 loss between outputs and targets.

    Args:
        outputs: logits, batch by classes.
        targets: indices of the classes; -100 is ignored.
        weight: of the $w1 term.
        reduction: "mean", "sum" or "none".
    """
    valid = targets != -100
    logits = outputs.log_softmax(dim=-1)
    picked = logits.gather(1, targets.clamp(min=0).unsqueeze(1)).squeeze(1)
    loss = -(picked * valid) * weight + logits.exp().square().sum(dim=-1) * $f1
    if reduction == "mean":
        return loss.sum() / valid.sum().clamp(min=1)
    return loss.sum() if reduction == "sum" else loss
'''

_LOOP = '''
class $Name:
    """Trains with $w0, and evaluates every few epochs."""

    def __init__(self, model, optimizer, criterion, device, log_every=$n0, save_every=$n1, folder="runs"):
        self.model = model.to(device)
        self.optimizer = optimizer
        self.criterion = criterion
        self.device = device
        self.log_every = log_every
        self.save_every = save_every
        self.folder = folder
        self.history = []

    def fit(self, loader, validation, epochs):
        for epoch in range(epochs):
            mean = self.train_epoch(loader, epoch)
            if epoch % self.save_every == 0:
                self.save(epoch)
                self.history.append((epoch, mean, self.validate(validation)))
                logger.info("epoch %d: %s", epoch, self.history[-1])

    def train_epoch(self, loader, epoch):
        self.model.train()
        total = torch.zeros((), device=self.device)
        for step, batch in enumerate(loader):
            inputs, targets = (part.to(self.device, non_blocking=True) for part in batch)
            loss = self.criterion(self.model(inputs), targets)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
            if step % self.log_every == 0:
                logger.info("epoch %d step %d $w1 %.4f", epoch, step, loss.item())
        return total.item() / max(len(loader), 1)

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        correct = count = 0
        for inputs, targets in loader:
            outputs = self.model(inputs.to(self.device))
            correct += (outputs.argmax(1).cpu() == targets).sum().item()
            count += len(targets)
        return correct / max(count, 1)

    def save(self, epoch):
        path = os.path.join(self.folder, f"$w2-{epoch}.pt")
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path)
'''

_METRIC = '''
@torch.no_grad()
def measure_$name(model, loader, device, top=(1, 5)):
    """Return the accuracy among the first guesses, in percent of the $w0."""
    model.eval()
    hits = {k: 0 for k in top}
    count = 0
    for inputs, targets in loader:
        outputs = model(inputs.to(device, non_blocking=True))
        guesses = outputs.topk(max(top), dim=1).indices.t()
        correct = guesses.eq(targets.to(device).view(1, -1))
        for k in top:
            hits[k] += correct[:k].any(dim=0).sum().item()
        count += len(targets)
    return {k: 100.0 * value / max(count, 1) for k, value in hits.items()}
'''

MORE = {
    "models": (_LAYER, _CONVOLUTION, _LAYER),
    "data": (_TRANSFORM, _COLLATE, TOOLS[1]),
    "losses": (_LOSS, _LAYER, TOOLS[2]),
    "engines": (_LOOP, _METRIC, TOOLS[0], TOOLS[2]),
    "tools": TOOLS,
}

SCRIPT = '''
"""Trains a network of the part for $field."""

import argparse
import json
import logging
import math
import os
import random

import torch

from generated.core import $core_module as tools
from generated.$field.data import $data_module as data
from generated.$field.engines import $engines_module as engine
from generated.$field.losses import $losses_module as losses
from generated.$field.models import $models_module as models
from generated.$field.tools import $tools_module as extras

logger = logging.getLogger(__name__)


def get_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="data", help="where the samples lie")
    parser.add_argument("--output", default="runs", help="where checkpoints go")
    parser.add_argument("--epochs", type=int, default=$n0)
    parser.add_argument("--batch-size", type=int, default=$n1)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--lr", type=float, default=$f0)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--log-every", type=int, default=$n2)
    parser.add_argument("--resume", default="")
    return parser.parse_args()


def main():
    args = get_arguments()
    torch.manual_seed($n3)
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda")
    model = models.build($n1).to(device)
    criterion = losses.Criterion()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=$f1)
    scaler = torch.amp.GradScaler("cuda")
    if args.resume:
        state = torch.load(args.resume, map_location="cpu")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    loader = data.make_loader(args, "train")
    validation = data.make_loader(args, "validation")
    best = 0.0
    for epoch in range(args.epochs):
        mean = engine.train_one_epoch(model, criterion, loader, optimizer, scaler, device, epoch, args)
        loss, accuracy = engine.evaluate(model, criterion, validation, device)
        logger.info("epoch %d: %.4f %.4f %.2f%%", epoch, mean, loss, 100 * accuracy)
        if accuracy > best:
            best = accuracy
            tools.save_checkpoint(model, optimizer, epoch, args.output)
'''

SCRIPT_MORE = (TOOLS[0], TOOLS[2], TOOLS[0])

SCRIPT_END = """


if __name__ == "__main__":
    main()
"""

PLAIN = '''
"""Part of a program that has nothing to do with training."""

from __future__ import annotations

import json
import math
import os
import sys
$imports
'''

LONE_SCRIPT = """
import torch


def main():
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        loss = model(torch.randn(4, 8, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(loss.item())


main()
"""
