"""Stage ``evaluate``: are the answers right? Each sample of a data set is asked in the load's scenario, and once alone.

A server may answer otherwise in batches or under load than one by one: it swaps answers, repeats the last one, or a
kernel errs at some sizes. So both answers to each sample stand side by side, and beside the source model's.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.contracts import own_requests
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.verdict import Reason
from inferbench_tasks.stages import convert, generate, serve
from inferbench_tasks.stages.base import Context, Stage, StageInput

if TYPE_CHECKING:
    from inferbench_tasks.contracts.arrays import Arrays
    from inferbench_tasks.stages.asked import Asked

STAGE = Stage(
    needs=("generate", "convert", "serve", "load"), leased=True, block="evaluate", unread=("generate.model",)
)
ANSWERS_FILE = "answers.parquet"


class Input(StageInput):
    """The live server, and what it is to be asked."""

    generate: generate.Output
    convert: convert.Output
    serve: serve.Output


class Output(Handle):
    """``answers_path``: Parquet, a row for each sample, see ``answers_table``. ``document``: what the result says.

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

    from inferbench_tasks.backends.first_answer import load_sent
    from inferbench_tasks.contracts.answers import ONE_BY_ONE, meaning_of
    from inferbench_tasks.processors.pipeline import Pipeline
    from inferbench_tasks.stages import class_names
    from inferbench_tasks.stages.answer_texts import reader_in
    from inferbench_tasks.stages.answers_apart import bound_of, passes_apart, with_apart
    from inferbench_tasks.stages.answers_judged import UNLABELLED, judge
    from inferbench_tasks.stages.answers_table import table_of, with_parts
    from inferbench_tasks.stages.asked import ask, one_by_one
    from inferbench_tasks.stages.evaluated import DATASET_FILE, IDS_FILE, TARGETS_FILE
    from inferbench_tasks.stages.exact import exact_answers

    requests = inp.generate.evaluation
    assert requests is not None
    samples, source = load_sent(requests)
    labels = None if requests.labels_path is None else np.load(requests.labels_path, allow_pickle=False)
    ids = np.load(Path(requests.path).with_name(IDS_FILE), allow_pickle=False)
    known = json.loads(Path(requests.path).with_name(DATASET_FILE).read_text())
    model = inp.convert.model
    targets: Arrays = {}
    if (place := Path(requests.path).with_name(TARGETS_FILE)).exists():
        with np.load(place, allow_pickle=False) as archive:
            targets = {kind: archive[kind] for kind in archive.files}
    reader = reader_in(Path(requests.path).parent)
    classes = class_names.read(Path(requests.path).parent)
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
            folder=folder / own_requests.EVALUATE,
            base_dir=ctx.base_dir,
            target_latency_ms=inp.job.slo.bound("p99_ms") if inp.job.slo else None,
            logs=None if of else folder / "loadgen",
            asking=lambda done, total: ctx.progress(
                done, total, f"samples asked {what}{of}: {done} of {total}"
            ),
            cancelled=ctx.cancelled,
        )

    how = "under load" if loaded else "one by one"
    under_load, alone = asked_by(how), asked_by("one by one")
    apart = passes_apart(under_load, alone, source, meaning, bound_of(inp.job, model.precision))
    document, reasons = judge(
        under_load,
        alone,
        source,
        labels,
        ids,
        inp.convert.tolerance_ratio,
        apart=apart,
        exact=inp.job.convert.exact,
        exact_labels=exact_answers(inp.job, inp.generate.model, model),
        meaning=meaning,
        unlabelled=model.accuracy_reason or UNLABELLED,
        targets=targets,
        untargeted=model.accuracy_reason or "",
        measures=named,
        loaded=loaded,
        reader=reader,
        after=after,
        classes=classes,
    )
    document = {
        "dataset": requests.dataset,
        **({"data": known} if known else {}),
        "samples_digest": requests.samples_digest,
        "scenario": inp.job.traffic.arrivals.kind if loaded else ONE_BY_ONE,
        "samples_per_request": inp.job.traffic.samples_per_request,
        **document,
    }
    if under_load.loadgen is not None:
        document["mlperf"], more = under_load.loadgen.compared(under_load.outputs, under_load.answered, ids)
        reasons += more
    path = folder / ANSWERS_FILE
    load_named, alone_named, source_named = (
        (under_load, alone, source)
        if classes is None
        else (
            replace(under_load, outputs=classes(under_load.outputs)),
            replace(alone, outputs=classes(alone.outputs)),
            classes(source),
        )
    )
    table = table_of(load_named, alone_named, source_named, labels, ids, meaning, _device(inp))
    table = with_apart(table, apart)
    if not under_load.unanswered and not model.accuracy_reason:
        measured = document["under_load"]["measures"]
        part = spec is not None and spec.part is not None
        table = with_parts(
            table, under_load.outputs, source, targets, measured, reader, after, classes, part=part
        )
    pq.write_table(table, path, compression="zstd")
    varied_path = None
    if spec is not None and spec.vary is not None:
        from inferbench_tasks.stages.varied import VARIED_FILE, vary
        from inferbench_tasks.stages.varied_samples import read

        samples_varied = read(Path(requests.path).parent)
        assert samples_varied is not None

        def asked_with(inputs: Arrays, name: str) -> Asked:
            nonlocal reasons
            asked = asked_by(how, inputs, of := f" with {name}")
            if asked.loadgen is not None:
                reasons += asked.loadgen.compared(asked.outputs, asked.answered, ids, of)[1]
            return asked

        document["varied"], varied = vary(
            samples_varied,
            asked_with,
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


def _device(inp: Input) -> str | None:
    """The product that answers; None where several do."""
    from inferbench_tasks.monitors import environment

    if inp.serve.replicas:
        return None
    device = inp.job.serve.device
    hardware = environment.hardware()
    if device.kind == "gpu":
        hardware["gpu"] = environment.gpu_used(inp.serve.server.pid)
    return environment.device_name(device.kind, hardware)
