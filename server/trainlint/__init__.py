"""trainlint: finds the lines of PyTorch training code that starve or stall the GPU."""

__version__ = "0.1.0"
