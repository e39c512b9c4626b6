"""Generated pictures of shapes: four classes, drawn and augmented when they are asked for."""

import torch
from torch.utils.data import Dataset

CLASSES = ("disc", "square", "cross", "ring")
SIZE = 24


def draw(label: int, generator: torch.Generator) -> torch.Tensor:
    """Draw one shape at a random place on a noisy background; the result is 3 x SIZE x SIZE."""
    centre = SIZE / 2 + 4 * (torch.rand(2, generator=generator) - 0.5)
    radius = 5 + 3 * torch.rand(1, generator=generator)
    rows, columns = torch.meshgrid(torch.arange(SIZE) - centre[0], torch.arange(SIZE) - centre[1], indexing="ij")
    distance = (rows**2 + columns**2).sqrt()
    masks = (
        distance < radius,
        (rows.abs() < radius * 0.8) & (columns.abs() < radius * 0.8),
        ((rows.abs() < 2) | (columns.abs() < 2)) & (distance < radius * 1.2),
        (distance < radius * 1.1) & (distance > radius * 0.6),
    )
    colour = 0.5 + 0.5 * torch.rand(3, 1, 1, generator=generator)
    noise = 0.3 * torch.rand(3, SIZE, SIZE, generator=generator)
    return noise + colour * masks[label].float()


class ShapesDataset(Dataset):
    """`length` pictures; the same index and seed always give the same picture."""

    def __init__(self, length: int, seed: int):
        self.length = length
        self.seed = seed

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        label = index % len(CLASSES)
        image = draw(label, generator)
        if torch.rand(1, generator=generator) < 0.5:
            image = image.flip(2)
        return (image - 0.5) / 0.25, label
