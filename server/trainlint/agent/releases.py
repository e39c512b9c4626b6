"""Which releases of torch the agent can look into."""

from __future__ import annotations

import re
from typing import Optional

OLDEST_TORCH = (2, 4)


def why_not(version: str) -> Optional[str]:
    """Why a torch of this version is not looked into; None where it is, or its version tells nothing."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or tuple(map(int, found.groups())) >= OLDEST_TORCH:
        return None
    oldest = ".".join(map(str, OLDEST_TORCH))
    return f"the job's torch is {version}, and {oldest} is the oldest that can be looked into; install a newer one"
