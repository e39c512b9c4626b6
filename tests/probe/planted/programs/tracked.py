"""Train with a tracker that writes the weights of each layer into its file at every step."""

import argparse
import tempfile
from pathlib import Path

import torch
import truth
from models import ConvNet
from pictures import decoded
from torch import nn
from torch.utils.data import DataLoader


class Tracker:
    """Keeps what it is told in a file, so that it can be read while the program runs."""

    def __init__(self, path):
        self.file = path.open("w")

    def log(self, step, values):
        for name, value in values.items():
            with truth.watch("write"):
                print(step, name, value, file=self.file, flush=True)  # expect: TL202


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--log", type=Path, default=Path(tempfile.gettempdir()) / "tracked.log")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tracker = Tracker(args.log)
    loader = DataLoader(decoded(320), batch_size=16, shuffle=True, pin_memory=device.type == "cuda")
    model = ConvNet().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    step = 0
    for _ in range(args.epochs):
        for images, labels in loader:
            truth.mark("batch")
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            truth.mark("step")
            tracker.log(step, dict(model.named_parameters()))
            step += 1


if __name__ == "__main__":
    main()
