"""Train a small language model on recipes, with gradients accumulated over several micro-batches.

Runs on one process, or on several: torchrun --standalone --nproc-per-node 2 train.py
"""

import argparse
import json
import math
import os

import torch
import torch.distributed as dist
from recipes import PAD, Tokenizer, make_recipes
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class RecipeDataset(Dataset):
    def __init__(self, texts):
        self.texts = texts

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return self.texts[index]


class Collator:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, texts):
        tokens = [torch.tensor(self.tokenizer.encode(text)) for text in texts]  # expect: TL102
        return {"input_ids": pad_sequence(tokens, batch_first=True, padding_value=PAD), "texts": texts}


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
    dataset = RecipeDataset(texts)
    sampler = DistributedSampler(dataset, shuffle=True, seed=args.seed) if distributed else None  # expect: TL303
    loader = DataLoader(  # expect: TL105
        dataset,
        batch_size=args.batch_size,
        sampler=sampler,
        shuffle=sampler is None,
        collate_fn=Collator(tokenizer),
        num_workers=2,
        pin_memory=use_cuda,
        drop_last=True,
    )
    model = LanguageModel(len(tokenizer)).to(device)
    if distributed:
        model = DDP(model, device_ids=[local_rank] if use_cuda else None)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.cuda.amp.GradScaler()  # expect: TL402, TL405

    losses = []
    step = 0
    tokens_seen = 0
    updates_per_epoch = len(loader) // args.accumulate
    for epoch in range(math.ceil(args.steps / updates_per_epoch)):
        for index, batch in enumerate(loader):
            tokens_seen += sum(len(tokenizer.encode(text)) for text in batch["texts"])  # expect: TL222
            input_ids = batch["input_ids"].to(device, non_blocking=True)
            with torch.cuda.amp.autocast(dtype=torch.bfloat16):  # expect: TL405
                logits = model(input_ids[:, :-1])
                loss = criterion(logits.flatten(0, 1), input_ids[:, 1:].flatten())
            scaler.scale(loss / args.accumulate).backward()  # expect: TL305
            losses.append(loss.detach())

            if (index + 1) % args.accumulate == 0:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                if rank == 0:
                    print(f"epoch {epoch} step {step} loss {loss.item():.4f}")  # expect: TL201, TL202
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
