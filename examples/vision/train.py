"""Train a small convolutional network on pictures of shapes."""

import argparse
import json
import math
from pathlib import Path

import torch
from shapes import CLASSES, ShapesDataset
from torch import nn
from torch.utils.data import DataLoader


class ConvNet(nn.Module):
    def __init__(self, classes: int):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
        )
        self.head = nn.Linear(32 * 16, classes)

    def forward(self, images):
        return self.head(self.features(images).flatten(1))


def evaluate(model, loader, device):
    model.eval()
    correct, total = 0, 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        logits = model(images)  # expect: TL216
        correct += (logits.argmax(dim=1) == labels).sum().item()
        total += len(labels)
    return correct / total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda", "auto"), default="auto")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--output", type=Path, default=Path("out/vision"))
    parser.add_argument("--resume", type=Path, help="a checkpoint to go on from")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.autograd.set_detect_anomaly(True)  # expect: TL407
    if args.device == "auto":
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    else:
        device = torch.device(args.device)

    train_set = ShapesDataset(512, seed=args.seed)
    test_set = ShapesDataset(128, seed=args.seed + 1)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)  # expect: TL103, TL104
    test_loader = DataLoader(test_set, batch_size=64)

    model = ConvNet(len(CLASSES)).to(device)
    start_epoch = 0
    if args.resume:
        checkpoint = torch.load(args.resume, map_location=device, weights_only=True)
        model.load_state_dict(checkpoint["model"])
        start_epoch = checkpoint["epoch"] + 1
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)  # expect: TL301

    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    args.output.mkdir(parents=True, exist_ok=True)
    losses = []
    step = 0
    for epoch in range(start_epoch, start_epoch + math.ceil(args.steps / len(train_loader))):
        model.train()
        for images, labels in train_loader:
            images, labels = images.to(device), labels.to(device)
            targets = torch.zeros(len(labels), len(CLASSES)).to(device)  # expect: TL209
            targets.fill_(0.1 / len(CLASSES))
            targets.scatter_(1, labels.unsqueeze(1), 0.9)

            optimizer.zero_grad(set_to_none=False)  # expect: TL211
            logits = model(images)
            loss = criterion(logits, targets)
            loss.backward()
            optimizer.step()

            accuracy = (logits.argmax(dim=1) == labels).float().mean().item()  # expect: TL201
            losses.append(loss.item())  # expect: TL201
            print(f"epoch {epoch} step {step} loss {losses[-1]:.4f} accuracy {accuracy:.3f}")  # expect: TL202
            step += 1
            if step == args.steps:
                break
        accuracy = evaluate(model, test_loader, device)
        print(f"epoch {epoch}: test accuracy {accuracy:.3f}")
        torch.save({"model": model.state_dict(), "epoch": epoch}, args.output / "last.pt")  # expect: TL601

    print(json.dumps({"losses": [float(loss) for loss in losses]}))


if __name__ == "__main__":
    main()
