"""The condition under which fixes put what one rank is to do alone."""

from __future__ import annotations

FIRST_RANK = "not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0"
"""True on one rank, and in a single process."""
