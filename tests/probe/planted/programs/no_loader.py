"""Train on batches that are made on the spot, without any loader."""

import argparse

import torch
import truth
from models import CLASSES, ConvNet
from pictures import SIZE
from torch import nn


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = ConvNet(depth=10).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    templates = torch.rand(CLASSES, 3, SIZE, SIZE, device=device)

    for step in range(args.steps):
        labels = torch.randint(0, CLASSES, (16,), device=device)
        images = templates[labels] + 0.1 * torch.randn(16, 3, SIZE, SIZE, device=device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        truth.mark("step")
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
