"""What the trainer measures, on the device until somebody asks."""

import torch


class AverageMeter:
    """The mean of the values it was given since the last reset."""

    def __init__(self, device):
        self.device = device
        self.reset()

    def reset(self):
        self.total = torch.zeros((), device=self.device)
        self.count = 0

    def update(self, value, count=1):
        self.total += value.detach() * count
        self.count += count

    @property
    def average(self):
        return self.total.item() / max(1, self.count)


def gradient_norm(model):
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return torch.nn.utils.get_total_norm(gradients)
