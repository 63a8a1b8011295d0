"""The paper's Figure 15: (a) the speed-up of each policy over RR+FCFS, (b) the CDF of the job completion times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from inferbench_tasks.errors import StorageError
from inferbench_tasks.scheduling.outcome import Outcome, times_as_long

#: Points of a curve; more can't be seen.
POINTS = 500


def draw(outcomes: Sequence[Outcome], baseline: Outcome, path: Path) -> None:
    """One HTML file that needs no network. Raises StorageError if it can't be written."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    titles = (f"(a) Speed-up of the mean JCT over {baseline.policy}", "(b) CDF of the job completion time")
    figure = make_subplots(rows=1, cols=2, subplot_titles=titles)
    ratios = [times_as_long(baseline, outcome) for outcome in outcomes]
    names = [outcome.policy for outcome in outcomes]
    texts = ["no job finished under both" if ratio is None else f"{ratio:.2f}x" for ratio in ratios]
    bar = go.Bar(x=names, y=ratios, text=texts, showlegend=False)
    figure.add_trace(bar, row=1, col=1)
    for outcome in outcomes:
        x, y = curve(outcome)
        figure.add_trace(go.Scatter(x=x, y=y, name=outcome.policy, mode="lines"), row=1, col=2)
    figure.update_yaxes(title_text="speed-up", rangemode="tozero", row=1, col=1)
    figure.update_xaxes(title_text="job completion time [min]", type="log", row=1, col=2)
    figure.update_yaxes(title_text="share of all jobs", row=1, col=2)
    figure.update_layout(title=f"Scheduling policies on {baseline.trace}, {_all_jobs(baseline)} jobs")
    try:
        figure.write_html(path, include_plotlyjs=True, full_html=True)
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror}") from error


def curve(outcome: Outcome) -> tuple[list[float], list[float]]:
    """Minutes, and the share of all jobs that had finished by then: below 1 at its end where some were given up, or
    never started, for a policy that finishes fewer has finished none of them sooner.
    """
    import numpy as np

    minutes = np.sort(np.asarray(outcome.jct_s())) / 60.0
    ratio = np.arange(1, len(minutes) + 1) / _all_jobs(outcome)
    picks = np.unique(np.linspace(0, len(minutes) - 1, min(POINTS, len(minutes))).astype(int))
    return minutes[picks].tolist(), ratio[picks].tolist()


def _all_jobs(outcome: Outcome) -> int:
    return len(outcome.jobs) + len(outcome.unfinished)
