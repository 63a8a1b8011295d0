"""``inferbench simulate``: scheduling policies on a trace, and the paper's Figure 15 of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.scheduling.generators import GENERATORS, Recipe, generate
from inferbench_tasks.scheduling.outcome import Outcome, times_as_long
from inferbench_tasks.scheduling.policies import POLICIES
from inferbench_tasks.scheduling.recorded import read_trace
from inferbench_tasks.scheduling.simulator import Simulator
from inferbench_tasks.scheduling.trace import Trace, cluster

app = typer.Typer()

BASELINE = "rr_fcfs"
CLAIRVOYANT = "clairvoyant"


@app.command()
def simulate(
    trace: str = typer.Argument(
        ..., metavar="TRACE", help=f"{', '.join(GENERATORS)}; or a .csv, .parquet or .jsonl."
    ),
    policies: str = typer.Option(",".join(POLICIES), "--policies", "-p", help="Names, with commas."),
    devices: str = typer.Option("16", help="Of a file's trace: 16, 2x8 (nodes x devices), v100=4,t4=2x8."),
    seed: int = typer.Option(100, min=0, help="Of a generated trace."),
    sigma: float = typer.Option(0.5, min=0.0, help="Log-normal error of a generated trace's estimates."),
    jobs: int | None = typer.Option(None, min=1, help="Number of a generated trace's jobs."),
    html: Path | None = typer.Option(
        None, dir_okay=False, help="Where Figure 15 goes [figure15-TRACE.html]."
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Try scheduling policies on a trace: job completion times (JCT) in seconds, longest wait, ratios.

    speedup: RR+FCFS's mean JCT over the policy's. vs_clairvoyant: the policy's over that of shortest-job-first with
    late binding that knows every length. Both are of the jobs that finished under both. A job that never ends is
    `unfinished`: it has waited to the end of the simulation. With a deadline it is `late`, as is one that was given up
    (`rejected`).
    """
    names = list(dict.fromkeys(name.strip() for name in policies.split(",") if name.strip()))
    instances = {name: POLICIES.load(name, "--policies")() for name in names}
    if not instances:
        raise InputError(f"--policies names none; known: {', '.join(POLICIES)}")
    jobs_trace = generate(trace, Recipe(seed, sigma, jobs)) if trace in GENERATORS else _read(trace, devices)
    runs = {BASELINE: POLICIES.load(BASELINE)(), **instances}
    outcomes: dict[str, Outcome] = {}
    with _progress(len(jobs_trace.jobs)) as step:
        for name, policy in runs.items():
            outcomes[name] = Simulator(jobs_trace, policy, progress=step(name)).run()
        best = POLICIES.load("late_sjf")()
        bound = Simulator(jobs_trace.clairvoyant(), best, progress=step(CLAIRVOYANT)).run()
    emit([_row(outcomes[name], outcomes[BASELINE], bound) for name in names], output)
    if outcomes[BASELINE].jct_s():
        from inferbench_tasks.scheduling.figure15 import draw

        path = html or Path(f"figure15-{Path(trace).stem}.html")
        draw([o for o in outcomes.values() if o.jct_s()], outcomes[BASELINE], path)
        say(f"Figure 15: {path.resolve()}")


def _read(trace: str, devices: str) -> Trace:
    path = Path(trace)
    if not path.is_file():
        raise InputError(f"No trace or file {trace!r}; generated traces: {', '.join(GENERATORS)}")
    return read_trace(path, cluster(devices))


def _row(outcome: Outcome, baseline: Outcome, bound: Outcome) -> dict[str, Any]:
    return {
        **outcome.summary(),
        "speedup": times_as_long(baseline, outcome),
        "vs_clairvoyant": times_as_long(outcome, bound),
    }


class _progress:
    """A bar per simulation on stderr, on a terminal only."""

    def __init__(self, jobs: int) -> None:
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        self._jobs = jobs
        self._bars = Progress(console=console, transient=True, disable=not console.is_terminal)

    def __enter__(self) -> Any:
        self._bars.start()
        return self._step

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def _step(self, name: str) -> Any:
        bar = self._bars.add_task(name, total=self._jobs)
        return lambda amount: self._bars.update(bar, completed=amount)
