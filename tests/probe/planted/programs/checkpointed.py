"""Train a network that computes its activations anew in the backward pass instead of keeping them."""

import argparse

import torch
import truth
from models import ConvNet
from pictures import decoded
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader


class Checkpointed(ConvNet):
    def forward(self, images):
        return self.head(checkpoint(self.features, images, use_reentrant=False).flatten(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(decoded(320), batch_size=16, shuffle=True, pin_memory=device.type == "cuda")
    model = Checkpointed(depth=4).to(device)
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
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
