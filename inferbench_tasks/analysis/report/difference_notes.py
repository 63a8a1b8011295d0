"""What a reader of a comparison should know of its runs beside their figures, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inferbench_tasks.analysis import steadiness
from inferbench_tasks.analysis.certainty import DRIFT_RATIO
from inferbench_tasks.analysis.energy_ground import got_by
from inferbench_tasks.analysis.price_ground import dates_note, priced_at
from inferbench_tasks.analysis.report import cpu_checks
from inferbench_tasks.analysis.report.alike import (
    judged_on_others,
    loads_differ,
    not_alike,
    rates_of_their_own,
)
from inferbench_tasks.dotted import value_at
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.metrics.interference import decides
from inferbench_tasks.perfdb.comparison import part_of_machine
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.offered import is_search, offered

#: Run id -> figure -> its values in the valid runs of the same configuration.
Repeats = Mapping[str, Mapping[str, Sequence[float]]]


def searched(result: ResultDocument) -> bool:
    """Whether it searched for its rate, so that its latencies are of a rate of its own."""
    return is_search(offered(result.model_dump(include={"load"})["load"]))


def notes_of(results: Sequence[ResultDocument], repeats: Repeats) -> list[str]:
    """Of the first run beside each of the others, in sentences."""
    pairs = [(results[0], other) for other in results[1:]]
    notes = [text for pair in pairs for text in _on_pair(*pair) if text]
    notes = list(dict.fromkeys([*_cpu_notes(results), *notes]))
    if len({result.summary.energy.method for result in results} - {None}) > 1:
        notes.append("Their energies were got by different methods, which measure different things.")
    counted = [result.model_dump(include={"summary": {"energy"}}) for result in results]
    parts = [part_of_machine(each) for each in counted if value_at(each, "summary.energy.machine")]
    if len({*parts}) > 1:
        notes.append(
            "Their energies count a whole machine, of which the runs had unlike parts "
            f"({'; '.join(part or 'all cores' for part in dict.fromkeys(parts))}): the idle power of the rest is in "
            "them, and is a part of what they may be wrong by."
        )
    of_co2 = FIGURES["co2_g_per_1k"]
    grounds = [
        got_by(of_co2, result.summary.model_dump(include={"energy", "carbon"}))
        for result in results
        if _emits(result)
    ]
    if len(electricity := sorted({ground.rpartition(", ")[2] for ground in grounds})) > 1:
        notes.append(
            f"Their CO₂ is of different electricity ({'; '.join(electricity)}): it is shown and not compared; the "
            "energies are."
        )
    if note := dates_note([priced_at(result.summary.model_dump(include={"cost"})) for result in results]):
        notes.append(note)
    for result in results:
        notes += [*_disturbances(result), *_unsteadiness(result)]
    if any(map(searched, results)):
        notes.append(
            "A run that searched for its highest rate has its latencies, and what else depends on the rate, at a rate "
            "of its own: these are shown and not compared."
        )
    if len({(r.model.name, r.model.digest) for r in results}) > 1:
        notes.append("The runs did not serve the same model.")
    counts = {r.run_id: max((len(v) for v in repeats.get(r.run_id, {}).values()), default=1) for r in results}
    if min(counts.values()) < 3:
        notes.append(
            "The spread between runs of the same configuration is known from few runs "
            f"({', '.join(str(count) for count in counts.values())}); a quiet machine's "
            f"{DRIFT_RATIO:.0%} is assumed beside them. Repeated runs would tell more."
        )
    return notes


def _emits(result: ResultDocument) -> bool:
    return FIGURES["co2_g_per_1k"].stored(result.summary.model_dump(include={"co2_g_per_1k"})) is not None


def _cpu_notes(results: Sequence[ResultDocument]) -> list[str]:
    """Whether CPU times are of one clock and of cores that were shared alike."""
    summaries = [result.summary.model_dump() for result in results]
    if any(FIGURES[cpu_checks.CPU].stored(summary) is None for summary in summaries):
        return []
    notes = [
        f"The CPU time of {results[0].run_id} and {other.run_id} is not compared: {text}."
        for other, summary in zip(results[1:], summaries[1:], strict=True)
        if (text := cpu_checks.differ(summaries[0], summary))
    ]
    if text := cpu_checks.unknown(*summaries):
        notes.append(f"CPU times are compared as if clocks were the same, and cores shared alike: {text}.")
    return notes


def _disturbances(result: ResultDocument) -> list[str]:
    """What disturbed a run; of one that counts, what was noted of its machine, which is no disturbance."""
    ledger = (result.summary.model_extra or {}).get("interference") or {}
    grave: dict[bool, list[str]] = {True: [], False: []}
    for finding in ledger.get("findings", []):
        counts = bool(finding.get("quarantine")) or decides(finding, ledger.get("mode"))
        grave[counts].append(finding["text"])
    notes = []
    if grave[True]:
        notes.append(
            f"{result.run_id} was disturbed, which may be all of a difference: {'; '.join(grave[True])}."
        )
    if grave[False]:
        notes.append(
            f"{result.run_id}: what is noted of its machine is too little to call the run disturbed, and may be a part "
            f"of a small difference: {'; '.join(grave[False])}."
        )
    return notes


def _unsteadiness(result: ResultDocument) -> list[str]:
    document = result.model_dump(include={"certificate"})
    if not (why := steadiness.unsteady(FIGURES["throughput_rps"], document)):
        return []
    return [
        f"The throughput of {result.run_id} is the mean of a rate that moved ({why}): it, and what is made of it "
        f"(cost, energy), is judged with an error of {steadiness.change_ratio(document):.0%}."
    ]


def _on_pair(first: ResultDocument, other: ResultDocument) -> tuple[str | None, ...]:
    return (
        not_alike(first, other),
        loads_differ(first, other),
        rates_of_their_own(first, other),
        judged_on_others(first, other),
    )
