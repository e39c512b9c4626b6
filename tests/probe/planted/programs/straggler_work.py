"""Train on two ranks, of which the second one also keeps what the network made of each batch.

Start it with: torchrun --standalone --nproc-per-node 2 straggler_work.py
"""

import argparse
import zlib

import ranks
import torch
import torch.distributed as dist
import truth
from models import ConvNet
from pictures import decoded
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    args = parser.parse_args()

    torch.manual_seed(0)
    rank, device = ranks.start()
    pictures = decoded(256)
    sampler = DistributedSampler(pictures, shuffle=True)
    loader = DataLoader(pictures, batch_size=8, sampler=sampler, pin_memory=device.type == "cuda")
    device_ids = [device.index] if device.type == "cuda" else None
    model = DistributedDataParallel(ConvNet().to(device), device_ids=device_ids)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            truth.mark("batch")
            seen = images
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            truth.mark("step")
            if rank == 1:
                pixels = bytes(seen.flatten().mul(255).byte().tolist()) * 4
                with truth.watch("keep"):
                    kept = [zlib.compress(pixels, level) for level in range(10)]
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}")
        else:
            print(f"kept {min(map(len, kept))} bytes of the last batch")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
