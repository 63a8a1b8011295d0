"""``inferbench arrivals``: the known arrival processes, and what a load would look like."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic import TypeAdapter, ValidationError

from inferbench_tasks.arrivals.base import ARRIVALS, ArrivalProcess, ArrivalsSpec
from inferbench_tasks.arrivals.max_rate import MaxRate
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit
from inferbench_tasks.problem import field_problems

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

app = typer.Typer(invoke_without_command=True)

#: Stretches of the load that the preview counts.
BUCKETS = 40
_BARS = " ▁▂▃▄▅▆▇█"


@app.callback()
def arrivals(ctx: typer.Context, output: OutputFormat = OUTPUT) -> None:
    """List the arrival processes with their parameters."""
    if ctx.invoked_subcommand is None:
        emit([row for kind in ARRIVALS for row in rows(kind, output)], output)


@app.command()
def show(
    process: str = typer.Argument(
        ..., metavar="PROCESS", help="poisson:80, gamma:rate_rps=80,cv=3, trace:path=x.csv; or JSON."
    ),
    duration_s: float = typer.Option(
        10.0, "--duration", min=0.001, max=86_400.0, help="Length of the load, s."
    ),
    seed: int = typer.Option(1, min=0, help="The same seed gives the same schedule."),
    offsets: bool = typer.Option(
        False, "--offsets", help="Print the send times, s after the start, instead."
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Draw a schedule, and say what came out: how many requests, their gaps, and when they leave."""
    import numpy as np

    spec = _read(process).bind(Path.cwd())
    try:
        spec.check(duration_s)
    except ValueError as error:
        raise InputError(f"{process}: {error}") from error
    if spec.loop == "closed":
        raise InputError(f"{process}: a closed loop has no schedule; requests leave when answers come")
    if isinstance(spec, MaxRate):
        raise InputError(f"{process}: it looks for its rate; each of its probes is poisson at one")
    times_ns = spec.offsets_ns(duration_s, np.random.default_rng(seed))
    if offsets:
        emit([{"offset_s": time / 1e9} for time in times_ns.tolist()], output)
        return
    counts = preview(times_ns, duration_s)
    document = {**spec.model_dump(), **describe(spec, times_ns, duration_s)}
    document["requests_over_time"] = bars(counts) if output is OutputFormat.table else counts
    emit(document, output)


def rows(kind: str, output: OutputFormat) -> list[dict[str, Any]]:
    """A kind's parameters, a row each; programs get every field, people the kind once."""
    origin = ARRIVALS.origin(kind)
    try:
        table = ARRIVALS.told(kind, partial(_parameters, kind))
    except InferBenchError as error:  # one broken plugin hides no other kind
        return [
            {
                "kind": kind,
                "loop": None,
                "parameter": None,
                "allowed": str(error),
                "default": None,
                "origin": origin,
            }
        ]
    table = [{**row, "origin": origin} for row in table]
    if output is OutputFormat.table:
        for row in table[1:]:
            row |= {"kind": "", "loop": "", "origin": ""}
    return table


def _parameters(kind: str, process: type[ArrivalProcess]) -> list[dict[str, Any]]:
    from inferbench_tasks.submission.fields import slot_of

    return [
        {
            "kind": kind,
            "loop": process.loop,
            "parameter": name,
            "allowed": slot_of(field).describe(),
            "default": "required" if field.is_required() else field.default,
            "meaning": field.description,
        }
        for name, field in process.model_fields.items()
        if name != "kind"
    ] or [{"kind": kind, "loop": process.loop, "parameter": None}]


def describe(spec: ArrivalProcess, times_ns: NDArray[np.int64], duration_s: float) -> dict[str, Any]:
    """What was drawn: requests, rates, gaps; None where there is too little."""
    import numpy as np

    gaps_ms = np.diff(times_ns) / 1e6
    mean = float(gaps_ms.mean()) if len(gaps_ms) else None
    return {
        "duration_s": duration_s,
        "requests": len(times_ns),
        "mean_rate_rps": len(times_ns) / duration_s,
        "expected_rate_rps": spec.mean_rate_rps(duration_s),
        "gap_mean_ms": mean,
        "gap_cv": float(gaps_ms.std()) / mean if mean else None,
        "gap_min_ms": float(gaps_ms.min()) if len(gaps_ms) else None,
        "gap_max_ms": float(gaps_ms.max()) if len(gaps_ms) else None,
    }


def preview(times_ns: NDArray[np.int64], duration_s: float) -> list[int]:
    """Requests in each of BUCKETS equal stretches of the load."""
    import numpy as np

    counted, _ = np.histogram(times_ns, bins=BUCKETS, range=(0, duration_s * 1e9))
    return [int(count) for count in counted]


def bars(counts: list[int]) -> str:
    """The counts as a line of bars, the highest at full height."""
    highest = max([*counts, 1])
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // highest)] for count in counts)


def _read(text: str) -> ArrivalProcess:
    from inferbench_tasks.loadgen.target import parse_arrivals

    adapter: TypeAdapter[ArrivalProcess] = TypeAdapter(ArrivalsSpec)
    try:
        return adapter.validate_python(parse_arrivals(text))
    except ValidationError as error:
        problems = "; ".join(field_problems(error, skipped=1))
        raise InputError(f"{text}: {problems}") from error
