"""The report's tables: runs, phases, and BenchmarkJade's columns beside the true ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.analysis.report.columns import of_a_part
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.tables import marked
from inferbench_tasks.training.diagnosis.observation import of_result
from inferbench_tasks.training.diagnosis.runs import impossible
from inferbench_tasks.training.jade import COLUMNS
from inferbench_tasks.training.report.views import PHASES, TrainingView

JADE_NOTE = (
    "Seconds, as in BenchmarkJade's tables. Its columns are means of rank 0 over all steps, the first (with the start "
    "of the loader's processes, where there are some) and the last among them{held}. After the bar: means of all ranks "
    "over measured steps, the device synchronised at every border. A CPU runs in step with the host, so nothing is "
    "launched here that Jade's clock would miss; on a GPU its columns without an exchange (strategy: single) are times "
    "of launching. Impossible is what beats the device's datasheet over whole batches, with a quarter of the products "
    "that are counted."
)
#: What Jade's columns hold beside what they are called by, by benchmark.
_HELD = {
    "train": "loading holds the transfer to the device, forward the loss, backward the optimiser",
    "inference": "loading holds the transfer to the device",
    "smooth_inference": "processing holds the transfer to the device, forward the wait for the answers of all ranks",
}
IN_STEP = "A CPU runs in step with its host: both clocks are one, and nothing waits for a device between the phases."
BY_STREAM = (
    "Stamps on the device's stream, which wait for nothing; the host's clock says how long launching took. Where both "
    "are as long, the host holds the device up. In the synchronised epochs the host waits at every border."
)


def runs(views: Sequence[TrainingView]) -> dict[str, Any]:
    """A line for each run: samples/s, the step, what the instruments cost, what the phases explain, and the loss where
    one of them has any.
    """
    with_loss = any(view.result.benchmark in (None, "train") for view in views)
    head = [
        "run", "samples/s", "95% interval", "step, ms", "p95, ms", "phases explain", "with instruments",
        *(("loss first", "loss last") if with_loss else ()), "verdict",
    ]  # fmt: skip
    rows = []
    for view in views:
        timing, summary = view.timing, view.summary
        bare = summary.bare if summary else {}
        step = timing["step_ms"] if timing else {}
        loss = summary.loss if summary else {}
        rows.append(
            [
                view.label,
                number(view.samples_per_s, 4),
                _interval(bare.get("samples_per_s_ci95")),
                number(step.get("mean")),
                number(step.get("p95")),
                _percent(timing["explained_ratio"] if timing else None),
                _percent(bare.get("instrumented_ratio")),
                *((number(loss.get("first")), number(loss.get("last"))) if with_loss else ()),
                view.state,
            ]
        )
    return {"title": "", "head": head, "rows": rows, "numbers": list(range(1, len(head))), "note": ""}


def phases(views: Sequence[TrainingView]) -> list[dict[str, Any]]:
    """For each run a line for each phase: wall clock, CPU time and the wait for a core."""
    head = [
        "phase",
        "wall, ms",
        "95% interval",
        "p95, ms",
        "share of the step",
        "CPU, ms",
        "wait for a core, ms",
    ]
    tables = []
    for view in views:
        timing = view.timing
        if timing is None:
            continue
        step_ms = timing["step_ms"]["mean"]
        rows = [
            [
                name.replace("_", " "),
                number(phase["wall_ms"]["mean"]),
                _interval(phase["wall_ms"]["ci95"]),
                number(phase["wall_ms"]["p95"]),
                _percent(phase["wall_ms"]["mean"] / step_ms),
                number(phase["cpu_ms"]),
                number(phase["wait_ms"]),
            ]
            for name, phase in timing["phases"].items()
        ]
        note = f"{timing['steps']:,} measured steps."
        if view.result.benchmark in (None, "train"):  # no other has gradients
            note += f" All-reduce: {_exchange(timing['all_reduce'])}."
        if (view.threads or 1) > 1 or len(timing["ranks"]) > 1:  # of several ranks some threads exchange
            note += " CPU time and waits are sums over the threads of a process and may exceed the wall time."
        tables.append(
            {"title": view.label, "head": head, "rows": rows, "numbers": list(range(1, 7)), "note": note}
        )
    return tables


_OF_BATCHES = ("read", "decode", "transform", "collate", "making", "queued", "queue_wait", "transfer")


def loader(views: Sequence[TrainingView]) -> list[dict[str, Any]]:
    """What making a batch takes in each run; [] where no loader made any."""
    rows = []
    for view in views:
        parts = view.summary.loader.get("parts") if view.summary else None
        if parts:
            # Results of before the way was told know the whole of it alone.
            rows.append([view.label, *(number(parts.get(f"{name}_ms")) for name in _OF_BATCHES)])
    if not rows:
        return []
    head = [
        "run",
        "read, ms",
        "decode, ms",
        "transform, ms",
        "collate, ms",
        "in all, ms",
        "then until it is taken, ms",
        "of it waiting, ms",
        "of it transfer, ms",
    ]
    note = (
        "Of one batch, in the process that makes it: the rank itself without loader processes (then it is part of "
        "loading), else a loader process, beside the rank's own work. These are times of the wall clock, with what the "
        "process waited for a core. A batch of w processes comes each 1/w of that time, if each has a core. Transfer "
        "is serialising it there and deserialising it in the rank, where that is part of loading (with page-locked "
        "memory torch's thread does it beside, and copies); its images lie in shared memory since they were collated. "
        "Waiting is for the queue, and for its turn."
    )
    numbers = list(range(1, 1 + len(_OF_BATCHES)))
    return [{"title": "Making a batch", "head": head, "rows": rows, "numbers": numbers, "note": note}]


def jade(views: Sequence[TrainingView]) -> list[dict[str, Any]]:
    """BenchmarkJade's table of the runs that measured its way; [] without any."""
    timed = [view for view in views if view.summary and view.summary.jade]
    if not timed:
        return []
    present = [
        name for name in PHASES if any(view.timing and name in view.timing["phases"] for view in timed)
    ]
    head = ["run", *(name.capitalize() for name in COLUMNS), "their sum", "an epoch's time", "explained"]
    head += [("| " if at == 0 else "") + name.replace("_", " ") for at, name in enumerate(present)]
    rows = []
    for view in timed:
        assert view.summary is not None and view.summary.jade is not None
        block, truth = view.summary.jade, (view.timing or {}).get("phases") or {}
        columns = block["columns"] or {}
        cells = [_seconds(columns.get(name)) for name in COLUMNS]
        if _is_impossible(view):
            cells[COLUMNS.index("forward")] += " (impossible)"
        cells += [_seconds(block["step_s"]), _seconds(block["epoch_s"]), _percent(block["explained_ratio"])]
        cells += [
            _seconds(truth[name]["wall_ms"]["mean"] / 1e3 if name in truth else None) for name in present
        ]
        rows.append([view.label, *cells])
    note = JADE_NOTE.format(held=_held(timed))
    return [{"title": "", "head": head, "rows": rows, "numbers": list(range(1, len(head))), "note": note}]


def _held(views: Sequence[TrainingView]) -> str:
    """What the columns of these runs hold; by benchmark, where there are several. Nothing of one that is not known."""
    benchmarks = list(dict.fromkeys(view.result.benchmark or "train" for view in views))
    texts = {name: _HELD[name] for name in benchmarks if name in _HELD}
    return "".join(
        f"; of {name}: {text}" if len(benchmarks) > 1 else f"; {text}" for name, text in texts.items()
    )


def _is_impossible(view: TrainingView) -> bool:
    """Whether the rule ``impossible`` says it of Jade's forward pass."""
    if (run := of_result(view.result)) is None:
        return False
    seconds, least_s = impossible.forward_s(run)["jade"], impossible.least_s(run)
    return seconds is not None and least_s is not None and 0 < seconds < least_s


def events(views: Sequence[TrainingView]) -> list[dict[str, Any]]:
    """The phases by the device's stamps and by the host's clock, beside the synchronised ones; [] without any."""
    tables = []
    for view in views:
        block = view.summary.events if view.summary else None
        if block is None or not block["phases"]:
            continue
        truth = (view.timing or {}).get("phases") or {}
        rows = [
            [
                name.replace("_", " "),
                number(times["device_ms"]),
                number(times["host_ms"]),
                number(truth[name]["wall_ms"]["mean"] if name in truth else None),
            ]
            for name, times in block["phases"].items()
        ]
        step = view.timing["step_ms"]["mean"] if view.timing else None
        host_ms = sum(times["host_ms"] for times in block["phases"].values())
        rows.append(["step", number(block["step_ms"]["mean"]), number(host_ms), number(step)])
        head = ["phase", "device's stamps, ms", "host's clock, ms", "synchronised, ms"]
        note = IN_STEP if block["in_step_with_host"] else BY_STREAM
        tables.append({"title": view.label, "head": head, "rows": rows, "numbers": [1, 2, 3], "note": note})
    return tables


def spending(views: Sequence[TrainingView]) -> list[dict[str, Any]]:
    """Energy, CO2 and money of an epoch and of a million samples; [] without a run that has any."""
    rows, said = [], []
    for view in views:
        block = view.summary.spending if view.summary else None
        if not block or all(of["per_epoch"] is None for of in block.values()):
            continue
        energy = block["energy"]
        method = f"{energy['method']} (±{energy['uncertainty_ratio']:.0%})" if energy["method"] else "–"
        cells = [_spent(block, name, per) for per in _PER for name in ("energy", "co2", "cost")]
        rows.append([view.label, *cells, method])
        said += [f"{name}: {of['reason']}" for name, of in block.items() if of["reason"]]
        said += [*_of_what(energy), *_by_which(block)]
    if not rows:
        return []
    head = [
        "run",
        *(f"{what} of {of}" for of in ("an epoch", "10⁶ samples") for what in ("J", "g CO2e", "USD")),
        "energy by",
    ]
    note = (
        "Energy and CO2: from the start of the first epoch to the end of the last one, loaders' starts, warm-up and "
        "instruments in it. Cost: by the samples/s without instruments, of the cheapest instance with this device, for "
        "all that were held. " + " ".join(f"{text}." for text in dict.fromkeys(said))
    )
    return [{"title": "", "head": head, "rows": rows, "numbers": list(range(1, 7)), "note": note.strip()}]


_PER = ("per_epoch", "per_million_samples")


def _spent(block: Mapping[str, Any], name: str, per: str) -> str:
    """A cost with the word that its rate earned."""
    text = number(block[name][per], 4)
    return marked(text, block[name].get("cheapest") or {}) if name == "cost" else text


def _of_what(energy: Mapping[str, Any]) -> list[str]:
    """What an energy counts besides the training, and what was counted that is not its own."""
    said = []
    if of_a_part(energy.get("machine") or {}):
        said.append(f"energy by {energy['method']}: {energy['scope']}")
    said += [
        f"{method}: {number(one['per_epoch'], 4)} J of an epoch are not the run's, {one['reason']}"
        for method, one in (energy.get("left_out") or {}).items()
    ]
    return said


def _by_which(block: Mapping[str, Any]) -> list[str]:
    """The electricity that emitted, and the instance whose rate it is."""
    co2, rate = block["co2"], block["cost"].get("cheapest")
    said = []
    if co2["per_epoch"] is not None and co2.get("region"):
        said.append(f"CO2e by the electricity of {co2['region']}, {co2['g_per_kwh']:g} g/kWh ({co2['date']})")
    if rate:
        hidden = (
            ", an instance of its family, for the product's name is hidden" if rate.get("approximate") else ""
        )
        said.append(
            f"USD by {rate['provider']} {rate['instance']} in {rate['region']}{hidden} ({rate['source']}, "
            f"{rate['date']})"
        )
    return said


def _exchange(of: dict[str, Any]) -> str:
    if of["reason"] is not None:
        return f"none of its own; {of['reason']}"
    whole, apart = of["wall_ms"]["mean"], of["apart_ms"]["mean"]
    return (
        f"{number(whole)} ms in all, within backward, of which computing does not hide {number(apart)} ms; the wait "
        "for the slowest rank is in both"
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _interval(interval: Sequence[float] | None) -> str:
    """Of a time or a rate, which is never below 0; Student's interval of few rounds may be, as it is stored."""
    if interval is None:
        return "–"
    return f"{number(max(0.0, interval[0]), 4)} to {number(interval[1], 4)}"
