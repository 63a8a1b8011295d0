"""Results of bricks with times made up."""

from __future__ import annotations

from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.results import Result

SETTING = Setting(processor="p", instruction_set="i", cores=1, threads=1, runtime="onnxruntime 1")


def result(
    identity: str,
    *times: float,
    operators: tuple[str, ...] = ("Conv",),
    parts: dict[str, tuple[str, ...]] | None = None,
    needs: dict[str, tuple[tuple[int, ...], ...]] | None = None,
) -> Result:
    """One with these times, ns, warm and (twice as long) streamed; ``needs``: None for parts that need none before."""
    free = {granularity: ((),) * len(names) for granularity, names in (parts or {}).items()}
    return Result(
        identity=identity, key=identity, operators=operators, setting=SETTING, session="s", method=Method(),
        rounds_ns={"warm": times, "streamed": tuple(2 * time for time in times)},
        raw_ns={"warm": ((1,),) * len(times)}, parts=parts or {}, needs=free if needs is None else needs,
    )  # fmt: skip
