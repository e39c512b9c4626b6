"""What the probe and the agents tell each other while the job runs: one mapped file each way, no sockets, no signals.

The probe writes `control`, which every process of the job maps and reads at its step boundaries. An agent writes its
state into the spare bytes of its ring's header; the probe reads it to show progress and to know when all is measured.
"""

from __future__ import annotations

import struct

CONTROL = struct.Struct("<8sIIQ")
"""Magic, commands, the process id of the probe, and the step after which every rank ends (0: as planned)."""
CONTROL_MAGIC = b"TLCTRL1\0"
CONTROL_BYTES = 64

DETACH = 1
"""Remove the hooks at the next step boundary and let the job run on."""
END = 2
"""End the job at the boundary after the step that the control word names, the same on every rank."""

STATE = struct.Struct("<IIII")
"""Phase, complete steps, clean steps, and 1 where the agent is off after a fault."""
STATE_OFFSET = 40
"""Where the state stands in a ring's header."""

WATCHED_FILE = "watched.json"
"""In the recording's folder: the rows, by path, of the lines of which agents say whether they run."""
