"""Train a small recurrent classifier on reviews: the clean twin of train.py."""

import argparse
import json
import math
from pathlib import Path

import torch
from reviews import make_reviews
from tokenizer import PAD, Tokenizer
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

try:
    from torch.utils.tensorboard import SummaryWriter
except ImportError:
    SummaryWriter = None


class ReviewDataset(Dataset):
    """Reviews tokenized once, when the dataset is built."""

    def __init__(self, reviews, tokenizer):
        self.samples = [(torch.tensor(tokenizer.encode(text)), label) for text, label in reviews]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


def pad_batch(samples):
    """Pad to the longest review of the batch."""
    input_ids = pad_sequence([ids for ids, _ in samples], batch_first=True, padding_value=PAD)
    return {
        "input_ids": input_ids,
        "attention_mask": input_ids != PAD,
        "label": torch.tensor([label for _, label in samples]),
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
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--log-dir", type=Path, default=Path("out/text_clean"))
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    if args.device == "auto":
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    else:
        device = torch.device(args.device)

    reviews = make_reviews(256, seed=args.seed)
    tokenizer = Tokenizer.learn([text for text, _ in reviews])
    dataset = ReviewDataset(reviews, tokenizer)
    loader = DataLoader(
        dataset, batch_size=args.batch_size, shuffle=True, collate_fn=pad_batch, pin_memory=device.type == "cuda"
    )

    model = Classifier(len(tokenizer)).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)
    writer = SummaryWriter(args.log_dir) if SummaryWriter is not None else None

    losses = []
    step = 0
    for epoch in range(math.ceil(args.steps / len(loader))):
        epoch_loss = torch.zeros((), device=device)
        for batch in loader:
            input_ids = batch["input_ids"].to(device, non_blocking=True)
            attention_mask = batch["attention_mask"].to(device, non_blocking=True)
            labels = batch["label"].to(device, non_blocking=True)

            optimizer.zero_grad()
            loss = criterion(model(input_ids, attention_mask), labels)
            loss.backward()
            optimizer.step()
            scheduler.step()

            epoch_loss += loss.detach()
            losses.append(loss.detach())
            if writer is not None and step % args.log_every == 0:
                writer.add_scalar("train/learning_rate", scheduler.get_last_lr()[0], step)
            step += 1
            if step == args.steps:
                break
        print(f"epoch {epoch}: mean loss {epoch_loss.item() / len(loader):.4f}")

    print(json.dumps({"losses": torch.stack(losses).tolist()}))


if __name__ == "__main__":
    main()
