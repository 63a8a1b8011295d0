"""The page of ``inferbench paper``: every figure of the paper beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from inferbench_tasks.analysis.charts import devices, heatmap, latency, resources, roofline, stages, sweep
from inferbench_tasks.analysis.charts.style import Chart
from inferbench_tasks.analysis.energy_ground import ways
from inferbench_tasks.analysis.paper import scheduler
from inferbench_tasks.analysis.paper.claims import CLAIMS, Claim, judged
from inferbench_tasks.analysis.paper.evidence import Evidence, left_out
from inferbench_tasks.analysis.paper.finding import Finding
from inferbench_tasks.analysis.report import page
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.analysis.report.sections import sheet_of
from inferbench_tasks.figures import FIGURES

#: So many models' and loads' costs are drawn, those that compare most instances.
MOST_OFFERS = 4
#: What stands in the page for each kind of finding, and how it is coloured.
WORDS = {
    "agrees": ("agrees", "good"),
    "differs": ("differs", "bad"),
    "undecided": ("undecided", "warn"),
    "unmeasured": ("not measured here", "soft"),
}


Drawn = Sequence[Chart | None]
#: The paper's figure -> the pictures of a submission's valid runs that show what it shows.
OF_RUNS: dict[str, Callable[[Sequence[RunView]], Drawn]] = {
    "7": lambda views: _bars(views, "throughput_samples_per_s", "p50_ms"),
    "8": lambda views: _bars(views, "joule_per_sample", "co2_g_per_1k_samples", "cost_usd_per_1k_samples"),
    "9": lambda views: [heatmap.attained_map(views)],
    "11": lambda views: [latency.cdf(views, {}), latency.percentiles(views, {})],
    "12": lambda views: _bars(views, "throughput_samples_per_s"),
    "13": lambda views: [_used(views)],
    "14": lambda views: [stages.pipeline(views), stages.cold_start(views)],
}


def _bars(views: Sequence[RunView], *figures: str) -> Drawn:
    """Of runs that are compared with each other; nothing of a single one."""
    if len(views) < 2:
        return []
    return [
        sweep.bars(views, figure, way)
        for figure in map(FIGURES.named, figures)
        for way in ways(figure, (view.summary for view in views))
    ]


def _used(views: Sequence[RunView]) -> Chart | None:
    """The GPU's utilisation, where it was sampled; else the server's cores."""
    courses = ("gpu.utilisation_ratio", "server.cpu_cores")
    return next(filter(None, (resources.over_time(views, course) for course in courses)), None)


def _costs(evidence: Evidence) -> tuple[Drawn, str]:
    """Of the models and loads those with the most instances side by side, in their order."""
    comparable = [offer for offer in evidence.offers if len(offer.rows) > 1]
    most = set(sorted(range(len(comparable)), key=lambda at: -len(comparable[at].rows))[:MOST_OFFERS])
    charts = [devices.costs(offer.rows, offer.words) for at, offer in enumerate(comparable) if at in most]
    rest = len(comparable) - len(most)
    rest_of = (
        f"Costs of the {len(most)} models and loads with the most instances; {rest} more: inferbench costs, and the "
        "page Devices."
    )
    return charts, rest_of if rest else ""


#: Those of all that there is, and of the scheduler; and what is not drawn of them, and where it is.
OF_ALL: dict[str, Callable[[Evidence], tuple[Drawn, str]]] = {
    "7": lambda evidence: ([devices.speedups(evidence.speedups.rows)], left_out(evidence.speedups)),
    "8": _costs,
    "15": lambda evidence: (scheduler.charts(evidence.scheduler), ""),
}


def _of_runs(figure: str, groups: Sequence[Sequence[RunView]], evidence: Evidence) -> Drawn:
    """The pictures of each submission of a figure; of a roofline one for all, which share its roof."""
    if figure == "10":
        every = [view for group in groups for view in group]
        return roofline.rooflines(every, evidence.ceilings, sheet_of(every))
    draw = OF_RUNS.get(figure)
    return [chart for group in groups for chart in draw(group)] if draw else []


def _not_valid(measured: Mapping[str, Sequence[RunView]]) -> str:
    """How many runs with figures are not drawn, for they don't count."""
    lost = {name: sum(not view.valid for view in views) for name, views in measured.items()}
    texts = [
        f"{count} of the {len(measured[name])} measured runs of {name}"
        for name, count in lost.items()
        if count
    ]
    return f"Not drawn, for they are not valid: {', '.join(texts)}." if texts else ""


def findings(
    views: Mapping[str, list[RunView]],
    evidence: Evidence | None = None,
    unavailable: Mapping[str, str] | None = None,
) -> list[tuple[Claim, Finding]]:
    """Every claim with what it comes to."""
    return [(claim, judged(claim, views, evidence, unavailable)) for claim in CLAIMS]


def in_words(found: Sequence[tuple[Claim, Finding]]) -> str:
    """How many of the paper's sentences agree, differ, are not decided, and are not measured here."""
    counts = {kind: sum(finding.kind == kind for _, finding in found) for kind in WORDS}
    said = [f"{count} {_verb(kind, count)}" for kind, count in counts.items() if count]
    return f"Of {len(found)} sentences of the paper: {', '.join(said)}."


def _verb(kind: str, count: int) -> str:
    """``1 agrees``, ``2 agree``; what is no verb stays."""
    word = WORDS[kind][0]
    return word.removesuffix("s") if count > 1 else word


def make_page(
    path: Path,
    views: Mapping[str, list[RunView]],
    reports: Mapping[str, str | None],
    evidence: Evidence | None = None,
    unavailable: Mapping[str, str] | None = None,
) -> str:
    """Write it; what it says in one sentence. ``reports``: submission -> the path of its own report; ``unavailable``:
    submission -> why it can't be run here.
    """
    evidence = evidence or Evidence()
    found = findings(views, evidence, unavailable)
    charts: dict[str, Chart] = {}
    blocks = []
    for figure in dict.fromkeys(claim.figure.split("(")[0] for claim in CLAIMS):
        of_figure = [(claim, finding) for claim, finding in found if claim.figure.split("(")[0] == figure]
        asked = dict.fromkeys(name for claim, _ in of_figure for name in claim.submissions)
        names = [name for name in asked if name in views]
        keys = []
        measured = {name: [view for view in views[name] if view.measured] for name in names}
        valid = [[view for view in measured[name] if view.valid] for name in names]
        drawn = _of_runs(figure, valid, evidence)
        not_drawn = _not_valid(measured) if any(drawn) else ""
        of_all, said = OF_ALL[figure](evidence) if figure in OF_ALL else ([], "")
        for chart in filter(None, [*drawn, *of_all]):
            keys.append(f"c{len(charts)}")
            charts[keys[-1]] = chart
        blocks.append(
            {
                "figure": figure,
                "claims": [
                    {
                        "figure": claim.figure, "paper": claim.paper, "said": WORDS[finding.kind][0],
                        "tone": WORDS[finding.kind][1], "text": finding.text,
                    }
                    for claim, finding in of_figure
                ],
                "charts": keys, "left_out": " ".join(filter(None, [not_drawn, said])),
                "reports": [(name, reports[name]) for name in names if reports.get(name)],
            }
        )  # fmt: skip
    everything = [view for group in views.values() for view in group]
    words = in_words(found)
    html = page.render(
        "paper.html", title="The InferBench paper's figures, here", words=words, machine=_machine(everything),
        troubled=[(name, sum(not v.valid for v in group), len(group)) for name, group in views.items()
                  if not all(view.valid for view in group)],
        blocks=blocks, charts=charts,
    )  # fmt: skip
    page.write(path, html)
    return words


def _machine(views: Sequence[RunView]) -> str:
    """The devices, and when."""
    results = [view.result for view in views if view.result]
    if not results:
        return ""
    devices = dict.fromkeys(result.device.name or result.device.kind for result in results)
    days = sorted(f"{result.created_at:%Y-%m-%d}" for result in results)
    when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    return f"{', '.join(devices)} · {when} · {sum(view.valid for view in views)} of {len(views)} runs valid"
