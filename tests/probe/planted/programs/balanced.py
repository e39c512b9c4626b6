"""Train with a bit of everything: some decoding, some output, and most of the time in the network."""

import argparse

import torch
import truth
from models import ConvNet
from pictures import CompressedPictures
from torch import nn
from torch.utils.data import DataLoader


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pictures = CompressedPictures(160, size=36)
    loader = DataLoader(pictures, batch_size=16, shuffle=True, pin_memory=device.type == "cuda")  # expect: TL103
    model = ConvNet().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    for _ in range(args.epochs):
        for images, labels in loader:
            truth.mark("batch")
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            logits = model(images)
            loss = criterion(logits, labels)
            loss.backward()
            optimizer.step()
            truth.mark("step")
            with truth.watch("print"):
                print(logits[0])  # expect: TL201, TL202


if __name__ == "__main__":
    main()
