"""Train with a log that reaches the disk record by record."""

import argparse
import logging
import os
import tempfile
from pathlib import Path

import torch
import truth
from models import ConvNet
from pictures import decoded
from torch import nn
from torch.utils.data import DataLoader

logger = logging.getLogger("training")


class DurableHandler(logging.FileHandler):
    """Writes each record through to the disk, so that a crash loses none."""

    def emit(self, record):
        super().emit(record)
        os.fsync(self.stream.fileno())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--log", type=Path, default=Path(tempfile.gettempdir()) / "logging_heavy.log")
    args = parser.parse_args()

    torch.manual_seed(0)
    logger.setLevel(logging.INFO)
    logger.addHandler(DurableHandler(args.log, mode="w"))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(decoded(320), batch_size=16, shuffle=True, pin_memory=device.type == "cuda")
    model = ConvNet().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    step = 0
    for epoch in range(args.epochs):
        for images, labels in loader:
            truth.mark("batch")
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            logits = model(images)
            loss = criterion(logits, labels)
            loss.backward()
            optimizer.step()
            truth.mark("step")
            with truth.watch("log"):
                logger.info("epoch %d step %d logits %s", epoch, step, logits)  # expect: TL201, TL202
            step += 1


if __name__ == "__main__":
    main()
