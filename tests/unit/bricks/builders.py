"""Results of bricks with times made up."""

from __future__ import annotations

from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.results import Result

SETTING = Setting(processor="p", instruction_set="i", cores=1, threads=1, runtime="onnxruntime 1")


def result(
    identity: str, *times: float, operator: str = "Conv", parts: dict[str, tuple[str, ...]] | None = None
) -> Result:
    """One with these times, ns, warm and (twice as long) streamed."""
    return Result(
        identity=identity, key=identity, operators=(operator,), setting=SETTING, session="s",
        rounds_ns={"warm": times, "streamed": tuple(2 * time for time in times)},
        raw_ns={"warm": ((1,),) * len(times)}, parts=parts or {},
    )  # fmt: skip
