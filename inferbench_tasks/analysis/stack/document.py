"""The analyses of one model, and what makes the difference between several, as plain values and as files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from inferbench_tasks.analysis.report.page import render
from inferbench_tasks.analysis.stack.base import ANALYSES, Analysis, Subject
from inferbench_tasks.analysis.stack.difference import difference
from inferbench_tasks.analysis.stack.one_precision import called_alike
from inferbench_tasks.analysis.stack.words import not_valid, sentences, unlike, valid
from inferbench_tasks.errors import InputError
from inferbench_tasks.registry import derived
from inferbench_tasks.spreadsheet import harmless

Document = dict[str, Any]
_NOTHING: Document = {"sentence": None, "rows": [], "figure": None}


def analysed(subject: Subject) -> Document:
    """Every analysis that there is, in XSP's order: table, formula, sentence, figure, or what is missing.

    A package's that can't be used says so there, and has no ``number``: it stands behind the others.
    """
    made = [analysis(kind, subject) for kind in ANALYSES]
    made.sort(key=lambda each: (each["number"] is None, each["number"], each["name"]))
    return {**_told(subject), "analyses": made}


def _told(subject: Subject) -> Document:
    """What is known of it without an analysis."""
    profile = subject.profile
    return {
        "run": profile.run_id,
        "label": profile.label,
        **profile.about,
        "runs": profile.runs,
        "rounds": len(profile.framework_ms_by_round),
        "framework_ms": profile.framework_ms,
        "layers_ratio": profile.layers_ms / profile.framework_ms,
        "layers": len(profile.layers),
    }


def analysis(kind: str, subject: Subject) -> Document:
    """One of them. A package's that can't be used is missing, with the reason: it hides no other."""
    try:
        return ANALYSES.told(kind, partial(_made, kind, subject))
    except InputError as error:
        about = {"number": None, "name": kind, "title": kind, "formula": None}
        return about | _NOTHING | {"missing": str(error)}


def compared(left: Subject, right: Subject) -> Document:
    """What makes the difference: rows that add up to it, sentences, and what else is not the same in both."""
    found = difference(left.profile, right.profile)
    return {
        "left": left.profile.run_id,
        "right": right.profile.run_id,
        "left_label": left.profile.label,
        "right_label": right.profile.label,
        "left_ms": left.profile.framework_ms,
        "right_ms": right.profile.framework_ms,
        "difference_ms": found.difference_ms,
        "ratio": found.ratio,
        "ci95": list(found.ci95) if found.ci95 else None,
        "sentences": [*sentences(found), *unlike(found), *not_valid(found)],
        "rows": found.as_rows(),
    }


def stacks(subjects: Sequence[Subject], left_out: Sequence[str] = ()) -> Document:
    """All of these with their analyses, and ``outlined``'s comparisons. ``left_out``: which runs are not, and why."""
    return outlined(subjects, left_out) | {"stacks": [analysed(subject) for subject in subjects]}


def outlined(subjects: Sequence[Subject], left_out: Sequence[str] = ()) -> Document:
    """All of these without their analyses, and each against the fastest valid one of its model and batch size: a
    smaller batch is no faster stack. Where none is valid, against the fastest.
    """

    def asked(subject: Subject) -> tuple[Any, ...]:
        return subject.profile.about.get("model"), subject.profile.about.get("batch_size")

    comparisons = []
    for model, size in dict.fromkeys(map(asked, subjects)):
        of_model = [subject for subject in subjects if asked(subject) == (model, size)]
        first, *others = sorted(
            of_model, key=lambda subject: (not valid(subject.profile), subject.profile.framework_ms)
        )
        comparisons += [{"model": model, **compared(first, other)} for other in others]
    return {
        "stacks": [_told(subject) for subject in subjects],
        "comparisons": comparisons,
        "left_out": list(left_out),
    }


def summary(document: Document) -> list[Document]:
    """A row for each of ``stacks``. ``ms``: a run of the runtime; ``layers_ratio``: what its layers are of it."""
    return [
        {
            "model": each["model"],
            "stack": each["label"],
            "batch_size": each.get("batch_size"),
            "ms": each["framework_ms"],
            "layers_ratio": each["layers_ratio"],
            "layers": each["layers"],
            "run": each["run"],
            "verdict": each["verdict"],
        }
        for each in document["stacks"]
    ]


def labelled(subjects: Sequence[Subject]) -> list[Subject]:
    """With labels that tell them apart: by what differs among them, else by their runs."""
    profiles = called_alike([subject.profile for subject in subjects])
    abouts = [profile.about for profile in profiles]
    names = [name for name in ("precision", "threads", "batch_size", "device") if _differs(abouts, name)]
    labels = [
        " ".join([profile.label, *(f"{name}={profile.about.get(name)}" for name in names)])
        for profile in profiles
    ]
    return [
        replace(
            subject,
            profile=replace(
                profile,
                label=label if labels.count(label) == 1 else f"{label} ({profile.run_id})",
            ),
        )
        for subject, profile, label in zip(subjects, profiles, labels, strict=True)
    ]


def write(document: Document, folder: Path) -> list[Path]:
    """All of ``stacks``: a CSV and a Parquet file for each table, ``stack.json``, and ``stack.html`` with the figures;
    the files. InputError."""
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for stack in document["stacks"]:
            for table in stack["analyses"]:
                if table["rows"]:
                    paths += _write_table(
                        table["rows"], folder / f"{stack['run']}.{table['number']}-{table['name']}"
                    )
        for each in document["comparisons"]:
            paths += _write_table(each["rows"], folder / f"{each['left']}..{each['right']}.difference")
        paths.append(folder / "stack.json")
        paths[-1].write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        paths.append(folder / "stack.html")
        paths[-1].write_text(page(document), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}", field="--to") from error
    return paths


def page(document: Document) -> str:
    """One page that opens without internet: sentences and figures of each stack, or what is missing."""
    charts = {
        f"{stack['run']}.{table['name']}": table["figure"]
        for stack in document["stacks"]
        for table in stack["analyses"]
        if table["figure"]
    }
    return render("stack.html", title="Across the stack", document=document, charts=charts)


def _made(kind: str, subject: Subject, variant: type[Analysis]) -> Document:
    each = derived(variant, Analysis)()
    about = {"number": int(each.number), "name": kind, "title": each.title, "formula": each.formula}
    if (missing := each.missing(subject)) is not None:
        return about | _NOTHING | {"missing": missing}
    rows = each.rows(subject)
    shown = {"sentence": each.sentence(subject, rows), "rows": rows}
    return about | shown | {"figure": each.figure(subject, rows), "missing": None}


def _write_table(rows: Sequence[dict[str, Any]], stem: Path) -> list[Path]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    comma, parquet = stem.with_name(stem.name + ".csv"), stem.with_name(stem.name + ".parquet")
    with comma.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0])
        writer.writerows([_cell(value) for value in row.values()] for row in rows)
    pq.write_table(pa.Table.from_pylist(list(rows)), parquet, compression="zstd")
    return [comma, parquet]


def _cell(value: Any) -> Any:
    """A list as JSON; a name from a model's file must not be run as a formula by a spreadsheet."""
    return orjson.dumps(value).decode() if isinstance(value, list) else harmless(value)


def _differs(abouts: Sequence[Document], name: str) -> bool:
    return any(a.get(name) != b.get(name) for a, b in pairwise(abouts))
