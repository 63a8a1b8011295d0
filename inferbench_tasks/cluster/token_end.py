"""The end of the token by which a host joined: its workers' access ends with it, amid whatever runs there."""

from __future__ import annotations

DAY_S = 86_400.0
#: From so long before it people are told.
WARN_S = 7 * DAY_S


def warning(left_s: float) -> str:
    """What is said so many seconds before it ends, and what to do; "" where that is long enough."""
    if left_s >= WARN_S:
        return ""
    days, hours = left_s / DAY_S, left_s / 3600
    within = f"in {days:.0f} days" if days >= 1.5 else f"in {hours:.0f} hours" if hours >= 1.5 else "now"
    when = f"ends {within}" if left_s > 0 else "has ended"
    return (
        f"the token by which this host joined {when}, and with it its workers' access: make another on the leader "
        "(inferbench tokens create) and start them again with that"
    )
