"""Train on pictures that two workers decode from a stream."""

import argparse

import torch
import truth
from models import ConvNet
from pictures import CompressedPictures
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    """Every picture once, each worker its own part of them."""

    def __init__(self, pictures):
        self.pictures = pictures

    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        for index in range(first, len(self.pictures), step):
            yield self.pictures[index]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        Stream(CompressedPictures(320, size=224)),
        batch_size=16,
        num_workers=2,
        pin_memory=device.type == "cuda",
        persistent_workers=True,
    )
    model = ConvNet(depth=1).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    for _ in range(args.epochs):
        truth.mark("epoch")
        for images, labels in loader:
            truth.mark("batch")
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            truth.mark("step")


if __name__ == "__main__":
    main()
