"""What two manifests, or two locks, say differently."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from inferbench_tasks.dotted import flatten


def differences(
    left: Mapping[str, Any],
    right: Mapping[str, Any],
    left_name: str = "then",
    right_name: str = "now",
    leave_out: Collection[str] = (),
) -> list[dict[str, Any]]:
    """{field, left, right} of each value that is not the same, by dotted path; None where one lacks it.

    ``leave_out``: paths that don't count.
    """
    if left_name == right_name:
        left_name, right_name = "left", "right"
    before, after = flatten(dict(left)), flatten(dict(right))
    return [
        {"field": path, left_name: before.get(path), right_name: after.get(path)}
        for path in dict.fromkeys([*before, *after])
        if before.get(path) != after.get(path) and path not in leave_out
    ]
