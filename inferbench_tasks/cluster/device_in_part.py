"""A device whose document in PerfDB can't be read as it stands: written by another version, by hand, or damaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.problem import field_problems

#: All that is known of a device for which one of these can't be read: long gone, it is none of a host's devices.
_UNKNOWN = {"device_type": "unknown", "name": "unknown", "host": "unknown", "age_s": 1e9}


def device_in_part(fields: Mapping[str, Any], error: ValidationError) -> Device:
    """What of it can be read, in quarantine, with what can't: it is given no job, and no other device suffers by it.

    A lease that can be read is its job's still. ``error``: of ``Device.model_validate(fields)``.
    """
    problems = {
        str(one["loc"][0]): problem
        for one, problem in zip(error.errors(), field_problems(error), strict=True)
    }
    readable = {name: value for name, value in fields.items() if name not in problems}
    if problems.keys() & _UNKNOWN.keys():
        readable = {"device_id": fields["device_id"], **_UNKNOWN}
    reason = (
        f"its document in PerfDB can't be read ({'; '.join(problems.values())[:300]}): start its worker again, with "
        "the leader's version; where that mends nothing, remove the document (collection devices)"
    )
    return Device.model_validate({**readable, "health": "quarantined", "reason": reason})
