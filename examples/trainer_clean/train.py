"""Train a denoising autoencoder on generated curves with a trainer class: the clean twin of examples/trainer."""

import argparse
import json
import math
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset
from trainer import Trainer

LENGTH = 64


class CurveDataset(Dataset):
    """Smooth curves and their noisy copies; the same index and seed always give the same pair."""

    def __init__(self, length, seed):
        self.length = length
        self.seed = seed

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        time = torch.linspace(0, 2 * math.pi, LENGTH)
        curve = torch.zeros(LENGTH)
        for wave in range(1, 4):
            amplitude, phase = torch.rand(2, generator=generator)
            curve += amplitude * torch.sin(wave * time + 2 * math.pi * phase)
        return curve + 0.3 * torch.randn(LENGTH, generator=generator), curve


def make_loaders(args):
    loading = {"num_workers": 1, "persistent_workers": True, "pin_memory": torch.cuda.is_available()}
    train_set = CurveDataset(512, seed=args.seed)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, **loading)
    test_loader = DataLoader(CurveDataset(128, seed=args.seed + 1), batch_size=64, **loading)
    return train_loader, test_loader


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda", "auto"), default="auto")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--wandb", action="store_true", help="report to Weights & Biases")
    parser.add_argument("--output", type=Path, default=Path("out/trainer_clean"))
    parser.add_argument("--resume", type=Path, help="a checkpoint to go on from")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train_loader, test_loader = make_loaders(args)
    trainer = Trainer(args, LENGTH)
    if args.resume:
        trainer.load(args.resume)
    trainer.fit(train_loader, test_loader)
    print(json.dumps({"losses": torch.stack(trainer.losses).tolist()}))


if __name__ == "__main__":
    main()
