"""The cluster: its devices and queues now, and who had which device when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.charts.style import PALETTE, SLO_COLOUR, Chart, axis, chart, text
from inferbench_tasks.cluster.node_rows import row
from inferbench_tasks.cluster.node_state import node_states
from inferbench_tasks.cluster.timeline import Stay, stays
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.cluster import MOST_HOURS, cluster_now
from inferbench_tasks.provider.ui.render import page

router = APIRouter(include_in_schema=False)
#: Times that the page offers to look back, hours.
OFFERED = {1: "1 hour", 6: "6 hours", 24: "a day", 24 * 7: "a week"}
#: The colour of a run by its state; grey for all others.
COLOURS = {
    "running": PALETTE[0],
    "valid": PALETTE[2],
    "disturbed": PALETTE[4],
    "invalid": PALETTE[1],
    "failed": SLO_COLOUR,
}


@router.get("/cluster", response_class=HTMLResponse)
def cluster(db: Store, hours: Annotated[float, Query(gt=0, le=MOST_HOURS)] = 6) -> HTMLResponse:
    """Devices, leases, queues and what runs; follows them while it is open. ``hours``: of the timeline."""
    now = db.now()
    since = now - timedelta(hours=hours)
    found = stays(db, since)
    return page(
        "cluster.html",
        here="cluster",
        **cluster_part(db),
        hours=hours,
        offered=OFFERED,
        timeline=timeline(found.stays, since, now),
        unseen_before=found.unseen_before,
    )


def cluster_part(db: PerfDB) -> dict[str, Any]:
    """What changes while the page is open."""
    return {"cluster": cluster_now(db), "nodes": [row(state) for state in node_states(db)]}


def timeline(found: Sequence[Stay], since: datetime, now: datetime) -> Chart | None:
    """A row for each device, a bar for each run on it, its colour by how the run ended; None without any.

    ``now``: as of before they were looked for; none lasts a negative time that has begun since.
    """
    if not found:
        return None
    now = max(now, *(stay.ended_at or stay.started_at for stay in found))
    devices = list(dict.fromkeys(stay.device for stay in found))
    states = [*COLOURS, *sorted({stay.state for stay in found} - COLOURS.keys())]
    data = []
    for state in states:
        mine = [stay for stay in found if stay.state == state]
        if mine:
            spans = [(max(stay.started_at, since), stay.ended_at or now) for stay in mine]
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": state,
                    "y": [text(stay.device) for stay in mine],
                    "base": [begin.isoformat() for begin, _ in spans],
                    "x": [(end - begin).total_seconds() * 1000 for begin, end in spans],
                    "marker": {
                        "color": COLOURS.get(state, "#7F7F7F"),
                        "line": {"width": 1, "color": "#ffffff"},
                    },
                    "text": [_told(stay, now) for stay in mine],
                    "textposition": "none",
                    "customdata": [stay.run for stay in mine],
                    "hovertemplate": "%{text}<extra></extra>",
                }
            )
    made = chart(
        data,
        title="",
        xaxis=axis("UTC", type="date", range=[since.isoformat(), now.isoformat()]),
        yaxis=axis(
            "", type="category", categoryorder="array", categoryarray=[text(d) for d in devices][::-1]
        ),
        barmode="overlay",
        showlegend=True,
        meta="runs",
    )
    # The page's caption stands for the title, since it wraps on a narrow screen.
    layout = {name: value for name, value in made["layout"].items() if name != "title"}
    layout["margin"] |= {"t": 10}
    return {**made, "layout": {**layout, "height": 10 + layout["margin"]["b"] + 40 * len(devices) + 20}}


def _told(stay: Stay, now: datetime) -> str:
    seconds = ((stay.ended_at or now) - stay.started_at).total_seconds()
    who = stay.user if stay.login in (None, stay.user) else f"{stay.user} (login {stay.login})"
    lines = (stay.run, f"of {who}, {stay.state}", f"{stay.started_at:%Y-%m-%d %H:%M:%S} UTC, {seconds:.0f} s")
    return "<br>".join(text(line) for line in lines)
