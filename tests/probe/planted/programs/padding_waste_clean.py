"""Train a classifier of reviews that are padded to the longest of their batch."""

import argparse

import torch
import truth
from models import TextClassifier
from reviews import PAD, Tokenizer, make_reviews
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

LENGTH = 128


class Reviews(Dataset):
    def __init__(self, reviews, tokenizer):
        self.ids = [torch.tensor(tokenizer.encode(text)[:LENGTH]) for text, _ in reviews]
        self.labels = [label for _, label in reviews]

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return self.ids[index], self.labels[index]


def pad(samples):
    ids = pad_sequence([ids for ids, _ in samples], batch_first=True, padding_value=PAD)
    return {
        "input_ids": ids,
        "attention_mask": (ids != PAD).long(),
        "labels": torch.tensor([label for _, label in samples]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    reviews = make_reviews(256, words=30)
    dataset = Reviews(reviews, Tokenizer([text for text, _ in reviews]))
    loader = DataLoader(
        dataset,
        batch_size=16,
        shuffle=True,
        num_workers=1,
        collate_fn=pad,
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
