"""Train a small recurrent classifier on reviews."""

import argparse
import json
import math
from pathlib import Path

import torch
from reviews import make_reviews
from tokenizer import PAD, Tokenizer
from torch import nn
from torch.utils.data import DataLoader, Dataset

try:
    from torch.utils.tensorboard import SummaryWriter
except ImportError:
    SummaryWriter = None


class ReviewDataset(Dataset):
    def __init__(self, reviews, tokenizer, max_length):
        self.reviews = reviews
        self.tokenizer = tokenizer
        self.max_length = max_length

    def __len__(self):
        return len(self.reviews)

    def __getitem__(self, index):
        text, label = self.reviews[index]
        encoded = self.tokenizer(text, padding="max_length", max_length=self.max_length)  # expect: TL101, TL113
        return {
            "input_ids": torch.tensor(encoded["input_ids"]),
            "attention_mask": torch.tensor(encoded["attention_mask"]),
            "label": label,
        }


class Classifier(nn.Module):
    def __init__(self, vocabulary: int, width: int = 64):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.recurrent = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, input_ids, attention_mask):
        states, _ = self.recurrent(self.embedding(input_ids))
        weights = attention_mask.unsqueeze(2).float()
        return self.head((states * weights).sum(dim=1) / weights.sum(dim=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda", "auto"), default="auto")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--log-dir", type=Path, default=Path("out/text"))
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    if args.device == "auto":
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    else:
        device = torch.device(args.device)

    reviews = make_reviews(256, seed=args.seed)
    tokenizer = Tokenizer.learn([text for text, _ in reviews])
    dataset = ReviewDataset(reviews, tokenizer, args.max_length)
    loader = DataLoader(
        dataset, batch_size=args.batch_size, shuffle=True, num_workers=2, pin_memory=True, persistent_workers=True
    )

    model = Classifier(len(tokenizer)).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)
    writer = SummaryWriter(args.log_dir) if SummaryWriter is not None else None

    losses = []
    step = 0
    for epoch in range(math.ceil(args.steps / len(loader))):
        epoch_loss = 0.0
        for batch in loader:
            input_ids = batch["input_ids"].to(device)  # expect: TL108
            attention_mask = batch["attention_mask"].to(device)  # expect: TL108
            labels = batch["label"].to(device)  # expect: TL108

            optimizer.zero_grad()
            loss = criterion(model(input_ids, attention_mask), labels)
            loss.backward()
            optimizer.step()
            scheduler.step()

            epoch_loss += loss  # expect: TL210
            losses.append(loss.detach())
            if writer is not None:
                writer.add_scalar("train/learning_rate", scheduler.get_last_lr()[0], step)  # expect: TL203
            step += 1
            if step == args.steps:
                break
        print(f"epoch {epoch}: mean loss {epoch_loss / len(loader):.4f}")

    print(json.dumps({"losses": torch.stack(losses).tolist()}))


if __name__ == "__main__":
    main()
