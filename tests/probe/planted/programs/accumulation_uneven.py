"""Train with gradients accumulated over four micro-batches, and over the two that are left at an epoch's end."""

import argparse

import torch
import truth
from models import ConvNet
from pictures import decoded
from torch import nn
from torch.utils.data import DataLoader

ACCUMULATE = 4


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=14)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(decoded(208), batch_size=8, shuffle=True, pin_memory=device.type == "cuda")
    model = ConvNet(depth=1).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    for epoch in range(args.epochs):
        total = torch.zeros((), device=device)
        for index, (images, labels) in enumerate(loader):
            truth.mark("batch")
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = criterion(model(images), labels) / ACCUMULATE
            loss.backward()
            total += loss.detach()
            if (index + 1) % ACCUMULATE == 0 or index + 1 == len(loader):
                optimizer.step()
                truth.mark("step")
                optimizer.zero_grad()
        print(f"epoch {epoch}: mean loss {total.item() * ACCUMULATE / len(loader):.4f}")


if __name__ == "__main__":
    main()
