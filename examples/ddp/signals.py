"""Generated signals: sums of sine waves, to be told apart by their number."""

import math

import torch
from torch.utils.data import Dataset

LENGTH = 128
CLASSES = 4


class SignalDataset(Dataset):
    """`length` signals; the same index and seed always give the same signal."""

    def __init__(self, length: int, seed: int):
        self.length = length
        self.seed = seed

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        time = torch.linspace(0, 2 * math.pi, LENGTH)
        label = index % CLASSES
        signal = 0.2 * torch.randn(LENGTH, generator=generator)
        for wave in range(label + 1):
            phase = 2 * math.pi * torch.rand(1, generator=generator)
            signal += torch.sin((3 * wave + 2) * time + phase)
        return signal.unsqueeze(0), label
