"""Train with values of tensors read in every step: for the log, for a branch, in a helper."""

import argparse

import torch
import truth
from models import ConvNet
from pictures import decoded
from torch import nn
from torch.utils.data import DataLoader


def gradient_norms(model):
    return [parameter.grad.norm().item() for parameter in model.parameters()]  # expect: TL201


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--keep-losses", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(decoded(320), batch_size=16, shuffle=True, pin_memory=device.type == "cuda")
    model = ConvNet().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []

    for epoch in range(args.epochs):
        correct = 0
        for images, labels in loader:
            truth.mark("batch")
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            logits = model(images)
            loss = criterion(logits, labels)
            if torch.isnan(loss):  # expect: TL204
                raise SystemExit("the loss is no number")
            loss.backward()
            with truth.watch("norms"):
                largest = max(gradient_norms(model))
            if args.keep_losses:
                losses.append(loss.item())  # expect: TL201
            optimizer.step()
            truth.mark("step")
            correct += (logits.argmax(dim=1) == labels).sum().item()  # expect: TL201
        print(f"epoch {epoch}: {correct} right, largest norm {largest:.3f}, {len(losses)} losses")


if __name__ == "__main__":
    main()
