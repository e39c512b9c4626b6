"""Generated pictures of two soft blobs, the "real" images that the generator learns to imitate."""

import torch
from torch.utils.data import Dataset

SIZE = 16


class BlobDataset(Dataset):
    """`length` pictures of 1 x SIZE x SIZE in -1..1; the same index and seed always give the same picture."""

    def __init__(self, length: int, seed: int):
        self.length = length
        self.seed = seed

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
        image = torch.zeros(SIZE, SIZE)
        for _ in range(2):
            row, column = 3 + (SIZE - 6) * torch.rand(2, generator=generator)
            image += torch.exp(-((rows - row) ** 2 + (columns - column) ** 2) / 6)
        return (2 * image.clamp(max=1) - 1).unsqueeze(0)
