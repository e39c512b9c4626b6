"""Start and end of a program that torchrun starts on several ranks."""

import os

import torch
import torch.distributed as dist


def start():
    """The rank and its device."""
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.device_count() > local_rank:
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl")
        return dist.get_rank(), torch.device("cuda", local_rank)
    dist.init_process_group("gloo")
    return dist.get_rank(), torch.device("cpu")
