"""How long, and how much, is kept of what InferBench writes beside PerfDB: one setting for each place."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from math import inf

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError

FOREVER = "forever"
_DAY_S = 86_400.0
_UNITS = {"d": _DAY_S, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_PART = re.compile(r"(\d{1,7}(?:\.\d{1,3})?) ?(d|MB|GB|TB)")
#: What a person comes back to stays for weeks; what is made again when it is needed stays by its size.
USUAL = {
    settings.KEEP_RUNS: "30d, 50GB",
    settings.KEEP_CACHE: "90d, 50GB",
    settings.KEEP_SUBMITTED: "180d, 1GB",
    settings.KEEP_LOGS: "30d, 2GB",
}


@dataclass(frozen=True, slots=True)
class Keep:
    """What has not been used for ``age_s`` may go, and beyond ``total_bytes`` what was used longest ago."""

    age_s: float = inf
    total_bytes: float = inf

    @classmethod
    def of(cls, setting: str) -> Keep:
        """What the environment says, else the usual; InputError where that is not understood."""
        text = (os.environ.get(setting) or USUAL[setting]).strip()
        if text == FOREVER:
            return cls()
        found: dict[str, float] = {}
        for part in text.split(","):
            match = _PART.fullmatch(part.strip())
            field = "age_s" if match and match[2] == "d" else "total_bytes"
            if match is None or field in found:
                raise InputError(
                    f"{setting} is {text[:40]!r}; allowed are days, a size, or both, such as '30d, 50GB' (MB, GB, TB), "
                    f"or {FOREVER!r}"
                )
            found[field] = float(match[1]) * _UNITS[match[2]]
        return cls(**found)
