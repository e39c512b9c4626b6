"""Train on two ranks with gradients accumulated, and reduced after every micro-batch.

Start it with: torchrun --standalone --nproc-per-node 2 accumulation_ddp.py
"""

import argparse

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

ACCUMULATE = 3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    rank, device = ranks.start()
    pictures = decoded(480)
    sampler = DistributedSampler(pictures, shuffle=True)
    loader = DataLoader(pictures, batch_size=4, sampler=sampler, pin_memory=device.type == "cuda")
    device_ids = [device.index] if device.type == "cuda" else None
    model = DistributedDataParallel(ConvNet(depth=1).to(device), device_ids=device_ids)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for index, (images, labels) in enumerate(loader):
            truth.mark("batch")
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = criterion(model(images), labels) / ACCUMULATE
            loss.backward()  # expect: TL305
            if (index + 1) % ACCUMULATE == 0:
                optimizer.step()
                truth.mark("step")
                optimizer.zero_grad()
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
