"""Train with a collate function that mixes pictures in the loader's only worker."""

import argparse

import torch
import truth
from models import ConvNet
from pictures import decoded
from torch import nn
from torch.utils.data import DataLoader


def mix(samples):
    """Blend each picture with every other one of its batch, by how alike they are."""
    images = torch.stack([image for image, _ in samples])
    labels = torch.stack([label for _, label in samples])
    mixed = []
    for image in images:
        with truth.watch("distances"):
            distances = (images - image).abs().pow(1.5).sum(dim=(1, 2, 3)).pow(1 / 1.5)
        with truth.watch("soften"):
            smooth = nn.functional.avg_pool2d(images, 7, stride=1, padding=3)
        weights = torch.softmax(-distances, 0).view(-1, 1, 1, 1)
        mixed.append(image * 0.9 + 0.1 * (weights * smooth).sum(dim=0))
    return torch.stack(mixed), labels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        decoded(480),
        batch_size=32,
        shuffle=True,
        num_workers=1,
        collate_fn=mix,
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
