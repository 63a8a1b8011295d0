"""How large bricks and batches may be: what is larger is a slip of the pen, and would take a machine's memory."""

from __future__ import annotations

#: Layers of a brick (``whole`` has no bound), and samples at once.
MOST_GRANULARITY, MOST_BATCH = 1_000, 4_096
