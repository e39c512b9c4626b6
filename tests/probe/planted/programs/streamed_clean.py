"""Train on a stream of whole batches of pictures that lie in memory."""

import argparse

import torch
import truth
from models import ConvNet
from pictures import decoded
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

BATCH = 16


class Stream(IterableDataset):
    """Every picture once, in the order in which they lie."""

    def __init__(self, pictures):
        self.pictures = pictures

    def __iter__(self):
        yield from (self.pictures[first : first + BATCH] for first in range(0, len(self.pictures), BATCH))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Stream(decoded(320)), batch_size=None, pin_memory=device.type == "cuda")  # expect: TL103
    model = ConvNet().to(device)
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
