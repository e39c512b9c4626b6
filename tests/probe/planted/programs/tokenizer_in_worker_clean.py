"""Train a classifier of reviews that were tokenized once, before training."""

import argparse

import torch
import truth
from models import TextClassifier
from reviews import Tokenizer, make_reviews
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LENGTH = 48


def tokenized(reviews):
    tokenizer = Tokenizer([text for text, _ in reviews])
    ids = torch.zeros(len(reviews), LENGTH, dtype=torch.long)
    for row, (text, _) in enumerate(reviews):
        known = torch.tensor(tokenizer.encode(text)[:LENGTH])
        ids[row, : len(known)] = known
    return TensorDataset(ids, torch.tensor([label for _, label in reviews]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(tokenized(make_reviews(320)), batch_size=16, shuffle=True, pin_memory=device.type == "cuda")
    model = TextClassifier().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    for epoch in range(args.epochs):
        for ids, labels in loader:
            truth.mark("batch")
            ids, labels = ids.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = criterion(model(ids), labels)
            loss.backward()
            optimizer.step()
            truth.mark("step")
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
