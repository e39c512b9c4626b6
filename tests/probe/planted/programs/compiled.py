"""Train a compiled network."""

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
    parser.add_argument("--backend", default="inductor")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(decoded(320), batch_size=16, shuffle=True, pin_memory=device.type == "cuda", drop_last=True)
    model = torch.compile(ConvNet().to(device), backend=args.backend)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    for epoch in range(args.epochs):
        for images, labels in loader:
            truth.mark("batch")
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            truth.mark("step")
            with truth.watch("print"):
                print(f"epoch {epoch} loss {loss.item():.4f}")  # expect: TL201, TL202
    counters = torch._dynamo.utils.counters
    print(f"{sum(counters['graph_break'].values())} graph breaks, {counters['stats']['unique_graphs']} graphs")


if __name__ == "__main__":
    main()
