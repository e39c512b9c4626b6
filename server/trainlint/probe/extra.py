"""The packages that only a probe needs."""

EXTRA = "pip install 'trainlint[probe]'"
"""What to do where one of them is not there."""
