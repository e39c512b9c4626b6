"""Train with an evaluation between two steps every so often, on batches that a worker of its own brings."""

import argparse

import torch
import truth
from models import ConvNet
from pictures import decoded
from torch import nn
from torch.utils.data import DataLoader

EVERY = 8


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    correct = torch.zeros((), device=device)
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        with truth.watch("forward"):
            logits = model(images)
        correct += (logits.argmax(dim=1) == labels).sum()
    model.train()
    return correct.item() / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(decoded(480), batch_size=16, shuffle=True, pin_memory=device.type == "cuda")
    test_loader = DataLoader(
        decoded(128, seed=1), batch_size=32, num_workers=1, pin_memory=device.type == "cuda", persistent_workers=True
    )
    model = ConvNet().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    step = 0
    for epoch in range(args.epochs):
        for images, labels in loader:
            truth.mark("batch")
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            truth.mark("step")
            step += 1
            if step % EVERY == 0:
                with truth.watch("evaluation"):
                    accuracy = evaluate(model, test_loader, device)
                print(f"epoch {epoch} step {step}: accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
