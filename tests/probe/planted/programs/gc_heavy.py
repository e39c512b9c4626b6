"""Train with a collection of garbage in every step, while a large index of objects is alive."""

import argparse
import gc

import torch
import truth
from models import ConvNet
from pictures import SIZE, decoded
from torch import nn
from torch.utils.data import DataLoader


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    index = [{"number": number, "box": [0, 0, SIZE, SIZE], "tags": {}} for number in range(2_000)]
    loader = DataLoader(decoded(320), batch_size=16, shuffle=True, pin_memory=device.type == "cuda")
    model = ConvNet().to(device)
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
            with truth.watch("collect"):
                gc.collect()  # expect: TL207
        print(f"epoch {epoch}: loss {loss.item():.4f}, {len(index)} pictures known")


if __name__ == "__main__":
    main()
