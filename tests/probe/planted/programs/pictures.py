"""Small colour pictures, decoded on demand or held as tensors."""

import zlib

import torch
import truth
from models import CLASSES
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import Dataset, TensorDataset

SIZE = 32


def compressed(count, size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randint(0, 256, (count, 3, 16, 16), generator=generator, dtype=torch.uint8)
    pictures = F.interpolate(coarse, size=(size, size), mode="nearest")
    return [zlib.compress(bytes(picture.flatten().tolist()), 6) for picture in pictures]


class CompressedPictures(Dataset):
    """Pictures as they come from a camera: large, compressed, and with noise to be smoothed away."""

    def __init__(self, count, size=112, seed=0):
        self.size = size
        self.files = compressed(count, size, seed)
        self.labels = torch.arange(count) % CLASSES

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with truth.watch("decode"):
            pixels = zlib.decompress(self.files[index])
        picture = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(3, self.size, self.size)
        with truth.watch("smooth"):
            picture = F.avg_pool2d(picture.float() / 255, 5, stride=1, padding=2)
        with truth.watch("resize"):
            picture = F.interpolate(picture[None], size=SIZE, mode="bicubic", antialias=True)[0]
        return picture, self.labels[index]


def decoded(count, seed=0):
    """Pictures that lie in memory, ready for use."""
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.rand(count, 3, SIZE, SIZE, generator=generator), torch.arange(count) % CLASSES)
