"""Train with an optimizer that evaluates the loss several times for one step."""

import argparse

import torch
import truth
from models import ConvNet
from pictures import decoded
from torch import nn
from torch.utils.data import DataLoader


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(decoded(160), batch_size=8, shuffle=True, pin_memory=device.type == "cuda")
    model = ConvNet(width=8, depth=1).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)

    for epoch in range(args.epochs):
        for images, labels in loader:
            truth.mark("batch")
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)

            def closure(images=images, labels=labels):
                optimizer.zero_grad()
                loss = criterion(model(images), labels)
                loss.backward()
                return loss

            loss = optimizer.step(closure)
            truth.mark("step")
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
