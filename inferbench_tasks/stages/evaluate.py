"""Stage ``evaluate``: are the answers right? Each sample of a data set is asked in the load's scenario, and once alone.

A server may answer otherwise in batches or under load than one by one: it swaps answers, repeats the last one, or a
kernel errs at some sizes. So both answers to each sample stand side by side, and beside the source model's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.verdict import Reason
from inferbench_tasks.errors import InputError
from inferbench_tasks.stages import convert, generate, serve
from inferbench_tasks.stages.base import Context, Stage, StageInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from inferbench_tasks.contracts.answers import Meaning
    from inferbench_tasks.contracts.arrays import Arrays
    from inferbench_tasks.processors.pipeline import Pipeline
    from inferbench_tasks.stages.asked import Asked

STAGE = Stage(
    needs=("generate", "convert", "serve", "load"), leased=True, block="evaluate", unread=("generate.model",)
)
ANSWERS_FILE = "answers.parquet"
#: From the outputs to a text for each sample, or why there is none (``quality.spans``).
Reader: TypeAlias = "Callable[[Arrays], NDArray[Any] | str]"
#: Why there is no accuracy where nothing else forbids one.
UNLABELLED = "the data set has no labels"
#: So many samples are listed by their ids; all of them stand in the file of answers.
LISTED = 50
#: A matrix of more classes is not stored; which classes were taken for which stands in the file of answers.
MOST_CLASSES = 100


class Input(StageInput):
    """The live server, and what it is to be asked."""

    generate: generate.Output
    convert: convert.Output
    serve: serve.Output


class Output(Handle):
    """``answers_path``: Parquet, a row for each sample, see ``table_of``. ``document``: what the result says of it.

    ``reasons``: why the run does not count, none if it does. ``varied_path``: the answers to what
    ``evaluate.vary`` changed, see ``varied.table_of``; None where it changed nothing.
    """

    answers_path: str
    varied_path: str | None = None
    document: dict[str, Any]
    reasons: tuple[Reason, ...] = ()


def run(inp: Input, ctx: Context) -> Output:
    """Ask everything twice, compare, judge, and write down each answer."""
    import numpy as np
    import pyarrow.parquet as pq

    from inferbench_tasks.backends.first_answer import load_reference
    from inferbench_tasks.contracts.answers import ONE_BY_ONE, meaning_of
    from inferbench_tasks.processors.pipeline import Pipeline
    from inferbench_tasks.stages import passages
    from inferbench_tasks.stages.asked import ask, one_by_one
    from inferbench_tasks.stages.evaluated import DATASET_FILE, IDS_FILE, TARGETS_FILE
    from inferbench_tasks.stages.varied import VARIED_FILE, vary
    from inferbench_tasks.stages.varied_samples import read

    requests = inp.generate.evaluation
    assert requests is not None
    samples, source = load_reference(requests)
    labels = None if requests.labels_path is None else np.load(requests.labels_path, allow_pickle=False)
    ids = np.load(Path(requests.path).with_name(IDS_FILE), allow_pickle=False)
    known = json.loads(Path(requests.path).with_name(DATASET_FILE).read_text())
    model = inp.convert.model
    targets: Arrays = {}
    if (place := Path(requests.path).with_name(TARGETS_FILE)).exists():
        with np.load(place, allow_pickle=False) as archive:
            targets = {kind: archive[kind] for kind in archive.files}
    reader = passages.read(Path(requests.path).parent)
    processing = inp.generate.requests.processing
    after = Pipeline((), processing.after, ()) if processing is not None and processing.after else None
    spec = inp.job.evaluate
    named = (spec and spec.measures) or ()
    meaning = meaning_of(model.task, source, labelled=labels is not None)
    folder = ctx.run_dir(inp.run_id)

    loaded = inp.job.load is not None

    def asked_by(what: str, inputs: Arrays = samples, of: str = "") -> Asked:
        load = inp.job.traffic if what == "under load" else one_by_one(inp.job.traffic)
        return ask(
            load,
            inputs,
            source,
            inp.serve.endpoint,
            folder=folder / "evaluate",
            base_dir=ctx.base_dir,
            asking=lambda done, total: ctx.progress(
                done, total, f"samples asked {what}{of}: {done} of {total}"
            ),
            cancelled=ctx.cancelled,
        )

    how = "under load" if loaded else "one by one"
    under_load, alone = asked_by(how), asked_by("one by one")
    document, reasons = judge(
        under_load,
        alone,
        source,
        labels,
        ids,
        inp.convert.tolerance_ratio,
        exact=inp.job.convert.precision == "fp32",
        meaning=meaning,
        unlabelled=model.accuracy_reason or UNLABELLED,
        targets=targets,
        untargeted=model.accuracy_reason or "",
        measures=named,
        loaded=loaded,
        reader=reader,
        after=after,
    )
    document = {
        "dataset": requests.dataset,
        **({"data": known} if known else {}),
        "samples_digest": requests.samples_digest,
        "scenario": inp.job.traffic.arrivals.kind if loaded else ONE_BY_ONE,
        "samples_per_request": inp.job.traffic.samples_per_request,
        **document,
    }
    path = folder / ANSWERS_FILE
    table = table_of(under_load, alone, source, labels, ids, meaning)
    if not under_load.unanswered and not model.accuracy_reason:
        measured = document["under_load"]["measures"]
        table = with_parts(table, under_load.outputs, source, targets, measured, reader, after)
    pq.write_table(table, path, compression="zstd")
    varied_path = None
    if (samples_varied := read(Path(requests.path).parent)) is not None:
        document["varied"], varied = vary(
            samples_varied,
            lambda inputs, name: asked_by(how, inputs, f" with {name}"),
            under_load,
            source,
            labels,
            ids,
            list(document["under_load"].get("measures", ())),
            model.accuracy_reason or UNLABELLED,
        )
        varied_path = folder / VARIED_FILE
        pq.write_table(varied, varied_path, compression="zstd")
    return Output(
        answers_path=str(path),
        document=document,
        reasons=reasons,
        varied_path=None if varied_path is None else str(varied_path),
    )


def judge(
    under_load: Asked,
    alone: Asked,
    source: Arrays,
    labels: NDArray[np.int64] | None,
    ids: NDArray[np.int64],
    tolerance_ratio: float,
    *,
    exact: bool,
    meaning: Meaning = "classes",
    unlabelled: str = UNLABELLED,
    targets: Arrays | None = None,
    untargeted: str = "",
    measures: Sequence[str] = (),
    loaded: bool = True,
    reader: Reader | None = None,
    after: Pipeline | None = None,
) -> tuple[dict[str, Any], tuple[Reason, ...]]:
    """What is said of the answers, and why they would not count.

    Figures are over all samples or there are none: those without an answer can't be left out without a word.
    ``exact``: whether the served model computes as precisely as its source, so that its answers must be the source's
    within the tolerance. ``meaning``: what the answers are. ``unlabelled``: why there are no labels.
    ``loaded``: whether there is a load; without one the samples were asked one by one, twice.
    ``targets``, ``untargeted``: see ``Answered``. ``measures``: their names, all that fit without any.
    ``reader``: what makes texts of the outputs, where these are none themselves. ``after``: the submission's
    processors, whose results are set against targets.
    """
    from inferbench_tasks.quality.answers_digest import answers_digest
    from inferbench_tasks.quality.base import Answered, decisions, ties
    from inferbench_tasks.quality.confusion import confusion
    from inferbench_tasks.quality.judge import judge as measured

    document: dict[str, Any] = {
        "samples": len(ids),
        "answers_are": meaning,
        "under_load": {
            "unanswered": under_load.unanswered,
            "failures": under_load.statuses,
        },
        "one_by_one": {"unanswered": alone.unanswered, "failures": alone.statuses},
        "passes": under_load.passes,
        "tolerance_ratio": tolerance_ratio,
    }
    for asked, part in ((under_load, document["under_load"]), (alone, document["one_by_one"])):
        if asked.unanswered:
            part["withheld"] = f"{asked.unanswered} of {len(ids)} samples got no answer"
            continue
        part["answers_digest"] = answers_digest(asked.outputs)
        texts = reader(asked.outputs) if reader is not None else None
        processed = _processed(after, asked.outputs)
        answered = Answered(
            asked.outputs, source, labels, meaning, unlabelled, targets or {}, untargeted, texts, processed
        )
        judged = measured(answered, measures)
        if meaning == "classes":
            part["tied"] = ties(asked.outputs, source)
        part["measures"] = {name: quality.as_dict() for name, quality in judged.values.items()}
        part["left_out"] = judged.left_out
    reasons = []
    both = under_load.answered & alone.answered
    differing = _differing(under_load.outputs, alone.outputs, source, both)
    document["differing"] = _listed(differing, ids, both, tolerance_ratio)
    if beyond := document["differing"]["beyond_tolerance"]:
        how, than = ("under load", "one by one") if loaded else ("one by one", "when they were asked again")
        reasons.append(
            _reason("differing", beyond, int(both.sum()), how, than, document["differing"]["samples"])
        )
    from_source = _differing(under_load.outputs, source, source, under_load.answered)
    document["from_source"] = _listed(from_source, ids, under_load.answered, tolerance_ratio)
    if exact and (beyond := document["from_source"]["beyond_tolerance"]):
        count = int(under_load.answered.sum())
        how, samples = "under load" if loaded else "one by one", document["from_source"]["samples"]
        reasons.append(_reason("from_source", beyond, count, how, "by the source model", samples))
    if labels is not None and meaning == "classes" and not under_load.unanswered:
        matrix = confusion(labels, decisions(under_load.outputs, source))
        document["classes"] = matrix.by_class()[:MOST_CLASSES]
        if len(matrix.classes) <= MOST_CLASSES:
            document["confusion"] = {"classes": list(matrix.classes), "counts": matrix.counts.tolist()}
    return document, tuple(reasons)


def with_parts(
    table: Any,
    outputs: Arrays,
    source: Arrays,
    targets: Arrays,
    measures: Mapping[str, Any],
    reader: Reader | None = None,
    after: Pipeline | None = None,
) -> Any:
    """The table with a column ``parts_NAME`` of each measure against targets: what the figure needs of each sample; and
    ``answer_text``, where answers are read out of the outputs."""
    import pyarrow as pa

    from inferbench_tasks.quality.base import Answered
    from inferbench_tasks.quality.judge import seen_by
    from inferbench_tasks.quality.measures import MEASURES
    from inferbench_tasks.quality.targets import TargetMeasure

    texts = reader(outputs) if reader is not None else None
    if texts is not None and not isinstance(texts, str):
        table = table.append_column("answer_text", pa.array(texts.tolist(), pa.string()))
    answered = Answered(outputs, source, targets=targets, texts=texts, processed=_processed(after, outputs))
    for name in measures:
        measure = MEASURES.load(name)()
        seen = seen_by(measure, answered)
        if isinstance(measure, TargetMeasure) and not isinstance(seen, str):
            parts = [part.tolist() for part in measure.parts(seen)]
            table = table.append_column(f"parts_{name}", pa.array(parts, pa.list_(pa.float64())))
    return table


def _processed(after: Pipeline | None, outputs: Arrays) -> Arrays | str | None:
    """What the processors make of a server's answers; why they can't; None without any."""
    if after is None:
        return None
    try:
        return after.each_after(outputs)
    except InputError as error:
        return f"the processors after the model can't read the answers: {error}"


def _differing(one: Arrays, other: Arrays, like: Arrays, both: NDArray[np.bool_]) -> NDArray[np.float64]:
    """max|one - other| of each sample by the largest |value| of all samples, over all outputs; inf for other texts,
    classes, or where one alone is no finite number; NaN of samples that do not have both answers.
    """
    import numpy as np

    if not both.any():  # then outputs may have no names at all
        return np.full(len(both), np.nan)
    worst = np.zeros(len(both))
    names = [name for name in like if name in one and name in other]
    pairs = [(name, name) for name in names] or list(zip(one, other, strict=True))
    for mine, theirs in pairs:
        a, b = one[mine].reshape(len(both), -1), other[theirs].reshape(len(both), -1)
        if a.shape != b.shape:
            return np.where(both, np.inf, np.nan)
        if a.dtype.kind == "f" and b.dtype.kind == "f":
            x, y = a.astype(np.float64), b.astype(np.float64)
            finite = np.isfinite(x) & np.isfinite(y)
            scale = float(np.abs(np.where(finite, y, 0.0)[both]).max(initial=0.0)) or 1.0
            with np.errstate(invalid="ignore"):
                apart = np.where(
                    finite, np.abs(x - y) / scale, np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.inf)
                )
            worst = np.maximum(worst, apart.max(axis=1, initial=0.0))
        else:
            worst = np.where((a == b).all(axis=1), worst, np.inf)
    worst[~both] = np.nan
    return worst


def _listed(
    differing: NDArray[np.float64], ids: NDArray[np.int64], both: NDArray[np.bool_], tolerance_ratio: float
) -> dict[str, Any]:
    """How many samples differ, how many beyond the tolerance, and which of those, the largest difference first."""
    import numpy as np

    known = np.where(both, differing, 0.0)
    beyond = known > tolerance_ratio
    order = np.argsort(-known, kind="stable")[: min(LISTED, int(beyond.sum()))]
    largest = float(known.max(initial=0.0))
    return {
        "compared": int(both.sum()),
        "beyond_tolerance": int(beyond.sum()),
        "largest_ratio": largest if np.isfinite(largest) else None,
        "samples": [int(ids[at]) for at in order],
    }


def _reason(check: str, count: int, of: int, how: str, than: str, samples: list[int]) -> Reason:
    shown = ", ".join(str(sample) for sample in samples[:5]) + (", ..." if count > 5 else "")
    text = f"{count} of {of} samples are answered otherwise {how} than {than}: {shown}"
    return Reason(check=f"evaluate.{check}", figure=count, bound=0, unit="samples", text=text)


def table_of(
    under_load: Asked,
    alone: Asked,
    source: Arrays,
    labels: NDArray[np.int64] | None,
    ids: NDArray[np.int64],
    meaning: Meaning = "classes",
) -> Any:
    """A row for each sample, null where there is none of something.

    ``sample``: its place in the data set. ``label``. ``answer``, ``score``, ``latency_ms``: the class that is named
    under load, the largest score, how long its request took. ``answer_one_by_one``, ``answer_source``: the class.
    Answers that are no classes stand in none of these columns.
    """
    import numpy as np
    import pyarrow as pa

    from inferbench_tasks.quality.base import decisions, scores_of

    def named(outputs: Arrays, there: NDArray[np.bool_]) -> pa.Array:
        if not outputs or meaning != "classes":
            return pa.nulls(len(ids), pa.int64())
        return pa.array(decisions(outputs, source), mask=~there)

    classes = meaning == "classes" and under_load.outputs
    scores = scores_of(under_load.outputs, source) if classes else None
    everywhere = np.ones(len(ids), dtype=bool)
    return pa.table(
        {
            "sample": pa.array(ids),
            "label": pa.nulls(len(ids), pa.int64()) if labels is None else pa.array(labels),
            "answer": named(under_load.outputs, under_load.answered),
            "score": pa.nulls(len(ids), pa.float64())
            if scores is None
            else pa.array(scores.max(axis=1), mask=~under_load.answered),
            "answer_one_by_one": named(alone.outputs, alone.answered),
            "answer_source": named(source, everywhere),
            "latency_ms": pa.array(under_load.latency_ms, mask=~under_load.answered),
        }
    )
