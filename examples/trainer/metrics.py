"""What the trainer measures."""

import math


class AverageMeter:
    """The mean of the values it was given since the last reset."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.total = 0.0
        self.count = 0

    def update(self, value, count=1):
        self.total += value.item() * count  # expect: TL201
        self.count += count

    @property
    def average(self):
        return self.total / max(1, self.count)


def gradient_norm(model):
    total = 0.0
    for parameter in model.parameters():
        if parameter.grad is not None:
            total += parameter.grad.norm().item() ** 2  # expect: TL201
    return math.sqrt(total)
