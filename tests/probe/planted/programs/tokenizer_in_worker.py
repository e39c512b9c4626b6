"""Train a classifier of reviews that are tokenized each time they are drawn."""

import argparse

import torch
import truth
from models import TextClassifier
from reviews import Tokenizer, make_reviews
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH = 48


class Reviews(Dataset):
    def __init__(self, reviews, tokenizer):
        self.reviews = reviews
        self.tokenizer = tokenizer

    def __len__(self):
        return len(self.reviews)

    def __getitem__(self, index):
        text, label = self.reviews[index]
        with truth.watch("tokenize"):
            ids = self.tokenizer.encode(text)  # expect: TL101
        ids = torch.tensor(ids[:LENGTH])
        return nn.functional.pad(ids, (0, LENGTH - len(ids))), label


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    reviews = make_reviews(640, words=100)
    dataset = Reviews(reviews, Tokenizer([text for text, _ in reviews]))
    loader = DataLoader(
        dataset,
        batch_size=32,
        shuffle=True,
        num_workers=1,
        pin_memory=device.type == "cuda",
        persistent_workers=True,
    )
    model = TextClassifier().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    for _ in range(args.epochs):
        truth.mark("epoch")
        for ids, labels in loader:
            truth.mark("batch")
            ids, labels = ids.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = criterion(model(ids), labels)
            loss.backward()
            optimizer.step()
            truth.mark("step")


if __name__ == "__main__":
    main()
