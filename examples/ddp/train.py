"""Train a signal classifier on several processes.

Start it with: torchrun --standalone --nproc-per-node 2 train.py
"""

import argparse
import json
import math
import os

import torch
import torch.distributed as dist
from signals import CLASSES, SignalDataset
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

os.environ["NCCL_P2P_DISABLE"] = "1"  # expect: TL308


class SignalNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, 32, 9, stride=2, padding=4),
            nn.ReLU(),
            nn.Conv1d(32, 64, 9, stride=2, padding=4),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(8),
        )
        self.head = nn.Linear(64 * 8, CLASSES)

    def forward(self, signals):
        return self.head(self.features(signals).flatten(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda", "auto"), default="auto")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    if "LOCAL_RANK" not in os.environ:
        parser.error("start it with: torchrun --standalone --nproc-per-node 2 train.py")

    local_rank = int(os.environ["LOCAL_RANK"])
    use_cuda = args.device == "cuda" or (args.device == "auto" and torch.cuda.is_available())
    if use_cuda:
        torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank) if use_cuda else torch.device("cpu")
    dist.init_process_group("nccl" if use_cuda else "gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)

    dataset = SignalDataset(512, seed=args.seed)
    loader = DataLoader(  # expect: TL104, TL302
        dataset, batch_size=args.batch_size, shuffle=True, num_workers=1, persistent_workers=True
    )
    model = SignalNet().to(device)
    device_ids = [local_rank] if use_cuda else None
    model = DistributedDataParallel(model, device_ids=device_ids, find_unused_parameters=True)  # expect: TL304
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    losses = []
    step = 0
    for epoch in range(math.ceil(args.steps / len(loader))):
        for signals, labels in loader:
            signals, labels = signals.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = criterion(model(signals), labels)
            loss.backward()
            optimizer.step()

            losses.append(loss.detach())
            if rank == 0:
                print(f"epoch {epoch} step {step}")  # expect: TL202
            if step % 8 == 0:
                print(f"loss {loss.item():.4f}")  # expect: TL213
            step += 1
            if step == args.steps:
                break

    if rank == 0:
        print(json.dumps({"losses": torch.stack(losses).tolist()}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
