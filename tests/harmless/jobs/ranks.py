"""Two ranks with gloo that train a model together; each prints to a file of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def train(rank: int, ranks: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = TensorDataset(torch.randn(96, 4), torch.randn(96, 1))
    sampler = DistributedSampler(data)
    with Path(f"rank{rank}").open("w", encoding="utf-8") as told:
        for number, (x, y) in enumerate(DataLoader(data, batch_size=2, sampler=sampler)):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            print(number, loss.item(), file=told)
        torch.distributed.barrier()
        print(torch.cat([one.flatten() for one in model.parameters()]).tolist(), file=told)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    else:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1])
        mp.spawn(train, (2,), 2)  # type: ignore[no-untyped-call]
