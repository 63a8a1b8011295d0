"""The home: what runs and waits now, the last verdicts, the devices, and what the last nights found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse

from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.cluster import cluster_now
from inferbench_tasks.provider.api.regression import regression_now
from inferbench_tasks.provider.api.runs import page_of
from inferbench_tasks.provider.ui.live import live_of
from inferbench_tasks.provider.ui.render import measured, page
from inferbench_tasks.provider.ui.trainings import shown_figure
from inferbench_tasks.training.listing import listed, row

router = APIRouter(include_in_schema=False)
#: Verdicts that are shown; more have pages of their own.
LAST = 10
#: Runs whose progress is read; of more the stage alone is told.
FOLLOWED = 20
#: The figures of a line, in words.
_SERVING = {"p99_ms": "p99 {} ms", "throughput_rps": "{} requests/s"}
_TRAINING = {"samples_per_s": "{} samples/s", "step_ms": "{} ms a step"}


@router.get("/", response_class=RedirectResponse)
def start() -> RedirectResponse:
    """Send who opens the plugin to its home."""
    return RedirectResponse("/inferbench/home")


@router.get("/home", response_class=HTMLResponse)
def home(db: Store) -> HTMLResponse:
    """What a team looks at first; what runs, waits and is broken, and the verdicts follow while it is open."""
    part = home_part(db)
    return page("home.html", here="home", **part)


def home_part(db: PerfDB) -> dict[str, Any]:
    """What changes while the home is open."""
    cluster = cluster_now(db)
    left_s = {of["run_id"]: of["expected_left_s"] for of in cluster["devices"] if of["run_id"]}
    followed = db.find_runs({"status": "running"}, limit=FOLLOWED)
    live = {record.run_id: live_of(db, record) for record in followed}
    nights = regression_now(db)
    return {
        "running": [
            {**of, "left_s": left_s.get(of["run"]), "live": live.get(of["run"])} for of in cluster["running"]
        ],
        "waiting": cluster["waiting"],
        "coming": cluster["coming"],
        # Of the jobs, not of the queues: one that fits on two types of devices stands in both.
        "queued_s": sum(of["expected_s"] for of in cluster["waiting"]),
        "states": Counter(of["state"] for of in cluster["devices"]),
        "broken": [of for of in cluster["devices"] if of["state"] in ("quarantined", "gone")],
        "last": last_verdicts(db),
        "nights": nights,
        "watched": bool(nights["series"]),
    }


def last_verdicts(db: PerfDB) -> list[dict[str, Any]]:
    """The newest verdicts on servings and trainings: ``run``, ``created``, ``what``, ``user``, ``figures`` in words,
    ``verdict``. A training that failed is told once, by its own result: the list of runs has it, too.
    """
    trained = listed(db, {}, limit=LAST)
    once = {result.run_id for result in trained}
    serving, _ = page_of(db, "verdict!=running", "", LAST, 0)
    found = [
        {
            "run": of["run"],
            "created": of["created"],
            "what": " on ".join(str(of[name]) for name in ("model", "backend") if of.get(name)) or "–",
            "user": of["user"],
            "login": of["login"],
            "figures": _words(of),
            "verdict": of["verdict"],
        }
        for of in serving
        if of["run"] not in once
    ]
    for result in trained:
        of = row(result)
        words = [text.format(shown_figure(of, name)) for name, text in _TRAINING.items() if of.get(name)]
        found.append(
            {
                "run": of["run"],
                "created": of["created"],
                "what": " of ".join(str(of[name]) for name in ("benchmark", "model") if of[name]) or "–",
                "user": result.submission.user,
                "login": result.submission.login,
                "figures": ", ".join(words) or "–",
                "verdict": of["verdict"],
            }
        )
    return sorted(found, key=lambda of: of["created"], reverse=True)[:LAST]


def _words(of: Mapping[str, Any]) -> str:
    words = [
        text.format(measured(of[name], FIGURES[name], of["verdict"]))
        for name, text in _SERVING.items()
        if of.get(name) is not None
    ]
    return ", ".join(words) or "–"
