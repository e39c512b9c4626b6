"""Train with a collate function that blurs the batch in the training process."""

import argparse

import torch
import truth
from models import ConvNet
from pictures import decoded
from torch import nn
from torch.utils.data import DataLoader


def blur(samples):
    """Blur each picture of a batch, by all widths on average."""
    images = torch.stack([image for image, _ in samples])
    labels = torch.stack([label for _, label in samples])
    widths = range(1, 13)
    with truth.watch("blur"):
        blurred = [nn.functional.avg_pool2d(images, 2 * n + 1, stride=1, padding=n) for n in widths]
    images = torch.stack(blurred).mean(dim=0)
    return images, labels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(decoded(320), batch_size=16, shuffle=True, collate_fn=blur, pin_memory=device.type == "cuda")
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
