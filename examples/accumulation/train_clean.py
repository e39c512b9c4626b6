"""Train a small language model on recipes, with gradients accumulated over several micro-batches:
the clean twin of train.py.

Runs on one process, or on several: torchrun --standalone --nproc-per-node 2 train_clean.py
"""

import argparse
import json
import math
import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
from recipes import PAD, Tokenizer, make_recipes
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class RecipeDataset(Dataset):
    """Recipes tokenized once, when the dataset is built."""

    def __init__(self, texts, tokenizer):
        self.recipes = [torch.tensor(tokenizer.encode(text)) for text in texts]

    def __len__(self):
        return len(self.recipes)

    def __getitem__(self, index):
        return self.recipes[index]


def collate(recipes):
    """Pad to the longest recipe of the batch, and count the real tokens while they are on the host."""
    tokens = sum(len(recipe) for recipe in recipes)
    return {"input_ids": pad_sequence(recipes, batch_first=True, padding_value=PAD), "tokens": tokens}


class LanguageModel(nn.Module):
    def __init__(self, vocabulary: int, width: int = 64, length: int = 128):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.positions = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, input_ids):
        length = input_ids.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool, device=input_ids.device).triu(diagonal=1)
        hidden = self.tokens(input_ids) + self.positions.weight[:length]
        return self.head(self.layers(hidden, mask=mask))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda", "auto"), default="auto")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--log-every", type=int, default=4)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    use_cuda = args.device == "cuda" or (args.device == "auto" and torch.cuda.is_available())
    if use_cuda:
        torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank) if use_cuda else torch.device("cpu")
    if distributed:
        dist.init_process_group("nccl" if use_cuda else "gloo")
    rank = dist.get_rank() if distributed else 0

    texts = make_recipes(256, seed=args.seed)
    tokenizer = Tokenizer(texts)
    dataset = RecipeDataset(texts, tokenizer)
    sampler = DistributedSampler(dataset, shuffle=True, seed=args.seed) if distributed else None
    loader = DataLoader(
        dataset,
        batch_size=args.batch_size,
        sampler=sampler,
        shuffle=sampler is None,
        collate_fn=collate,
        num_workers=2,
        pin_memory=use_cuda,
        persistent_workers=True,
        drop_last=True,
    )
    model = LanguageModel(len(tokenizer)).to(device)
    if distributed:
        model = DDP(model, device_ids=[local_rank] if use_cuda else None)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)

    losses = []
    step = 0
    tokens_seen = 0
    updates_per_epoch = len(loader) // args.accumulate
    for epoch in range(math.ceil(args.steps / updates_per_epoch)):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for index, batch in enumerate(loader):
            tokens_seen += batch["tokens"]
            input_ids = batch["input_ids"].to(device, non_blocking=True)
            last = (index + 1) % args.accumulate == 0
            with model.no_sync() if distributed and not last else nullcontext():
                with torch.autocast(device.type, dtype=torch.bfloat16, enabled=use_cuda):
                    logits = model(input_ids[:, :-1])
                    loss = criterion(logits.flatten(0, 1), input_ids[:, 1:].flatten())
                (loss / args.accumulate).backward()
            losses.append(loss.detach())

            if last:
                optimizer.step()
                optimizer.zero_grad()
                if rank == 0 and step % args.log_every == 0:
                    print(f"epoch {epoch} step {step} loss {loss.item():.4f}")
                step += 1
                if step == args.steps:
                    break

    if rank == 0:
        print(f"{tokens_seen} tokens seen")
        print(json.dumps({"losses": torch.stack(losses).tolist()}))
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
