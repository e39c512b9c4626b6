"""Train with some work on each batch and some on its metrics, beside that of the network."""

import argparse
from collections import Counter

import torch
import truth
from models import CLASSES, ConvNet
from pictures import decoded
from torch import nn
from torch.utils.data import DataLoader


def confusions(logits, labels):
    """How often each class was taken for which."""
    counts = Counter()
    guesses = logits.detach().argsort(dim=1).tolist()  # expect: TL201
    for ranked, label in zip(guesses, labels.tolist(), strict=True):  # expect: TL201
        for place, guess in enumerate(ranked * 120):
            counts[label, guess] += 1 / (1 + place % CLASSES)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(decoded(320), batch_size=16, shuffle=True, pin_memory=device.type == "cuda")
    model = ConvNet(depth=1).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    for epoch in range(args.epochs):
        totals = Counter()
        truth.mark("epoch")
        for images, labels in loader:
            truth.mark("batch")
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            logits = model(images)
            loss = criterion(logits, labels)
            loss.backward()
            optimizer.step()
            truth.mark("step")
            with truth.watch("metrics"):
                totals.update(confusions(logits, labels))
        print(f"epoch {epoch}: {len(totals)} kinds of confusion")


if __name__ == "__main__":
    main()
