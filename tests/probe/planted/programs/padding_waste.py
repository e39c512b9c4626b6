"""Train a classifier of reviews that are all padded to the longest length that the network knows."""

import argparse

import torch
import truth
from models import TextClassifier
from reviews import Tokenizer, make_reviews
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH = 128


class Reviews(Dataset):
    def __init__(self, reviews, tokenizer):
        texts = [text for text, _ in reviews]
        self.encoded = tokenizer(texts, padding="max_length", truncation=True, max_length=LENGTH)  # expect: TL113
        self.labels = [label for _, label in reviews]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {
            "input_ids": torch.tensor(self.encoded["input_ids"][index]),
            "attention_mask": torch.tensor(self.encoded["attention_mask"][index]),
            "labels": self.labels[index],
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    reviews = make_reviews(256, words=16)
    dataset = Reviews(reviews, Tokenizer([text for text, _ in reviews]))
    loader = DataLoader(
        dataset,
        batch_size=16,
        shuffle=True,
        num_workers=1,
        pin_memory=device.type == "cuda",
        persistent_workers=True,
    )
    model = TextClassifier().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    for _ in range(args.epochs):
        for batch in loader:
            truth.mark("batch")
            truth.value("tokens", batch["attention_mask"].float().mean().item())
            ids = batch["input_ids"].to(device, non_blocking=True)
            mask = batch["attention_mask"].to(device, non_blocking=True)
            labels = batch["labels"].to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = criterion(model(ids, mask), labels)
            loss.backward()
            optimizer.step()
            truth.mark("step")


if __name__ == "__main__":
    main()
