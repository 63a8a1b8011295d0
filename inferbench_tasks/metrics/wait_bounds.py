"""How much of a reported latency may be the wait for a core that others caused."""

from __future__ import annotations

#: As much as may be the sender's (``loadgen.thresholds``), and what timers and time slices do on a quiet machine
#: anyway: to the typical request half as much as to a rare one.
WAIT_RATIO, WAIT_MS, WAIT_TYPICAL_MS = 0.25, 1.0, 0.5
