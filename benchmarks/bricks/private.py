"""Whether a suite keeps what it shall: gate 9, and an attack on it.

    python -m benchmarks.bricks.private [MODEL ...] [--dummies 5] [--known MODEL,MODEL,MODEL ...] [--rows FILE]

Three models are exported among dummies, timed by a process that has neither them nor a database, and taken in again.
Then their open run is timed, of the same view and relative to the same level: the two predictions of each model are to
be within 2%. Of all constants and inputs of the suite no three numbers in a row may be three of a weight, and none of
the models' names (six letters and more, operators' aside) in any file.

The attack sees the folder alone, and suites that it exported itself of other models (``--known``, once each), of which
it knows all. It is judged by what the owner's PerfDB knows:

* *dummies*: a random forest learns from its own suites, by operators, sizes, their powers of two and how many others
  fit before and behind; the area under the curve for the owner's bricks is printed (0.5: chance, 1: all told apart);
* *chains*: which brick gives a brick's input? All whose output has its shape and type may; printed is how often one of
  these, taken by chance, is one that does, without the dummies and with them.

Exit code 1 where the gate fails, 2 where it does not but an open run was disturbed or not begun, which judges nothing.
What the attack finds is no gate. Everything lies in a folder of its own (``--work``),
with a PerfDB of its own; an ended run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bricks import rows as raw_rows
from inferbench_tasks import settings

MODELS = ("mobilenet_v2", "squeezenet1.1", "vit-tiny")
#: Suites that the attacker makes of what everybody has.
KNOWN = (
    "resnet18,mobilenet,bert-mini",
    "efficientnet-lite0,mobilenetv3small,vit-small",
    "squeezenet1.0,resnet34,mixer-small",
)
WITHIN_RATIO, LEAST_NAME = 0.02, 6


def main() -> int:
    """Export, time, take in, compare, attack; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--dummies", type=int, default=5)
    parser.add_argument("--known", nargs="*", default=KNOWN, metavar="MODEL,MODEL")
    parser.add_argument("--work", type=Path, default=Path("private"))
    raw_rows.options(parser, "private", "timing")
    parser.add_argument("--attack-only", action="store_true", help="Nothing is timed, and there is no gate.")
    options = parser.parse_args()
    end = raw_rows.ends_at(options)
    work: Path = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    # The owner's and the attacker's PerfDB: as if each were alone.
    os.environ[settings.DATA_DIR] = str(work / "data")
    os.environ.pop(settings.PERFDB_URI, None)
    suite = _exported(work / "suite", options.models, options.dummies)
    known = [
        _exported(work / f"known-{at}", names.split(","), options.dummies)
        for at, names in enumerate(options.known)
    ]
    of = raw_rows.where("onnxruntime", "onnx", "scikit-learn")
    machine = f"{of['machine']}, onnxruntime {version('onnxruntime')}"
    rows: dict[str, Any] = {"models": list(options.models), "dummies": options.dummies, "machine": machine}
    rows |= {"attack": _attacked(suite, known)} if known else {}
    if not options.attack_only:
        rows["kept"] = _kept(suite, options.models)
        rows["predictions"] = list(_compared(work, suite, options.models, end))
    common = {**of, "dummies": options.dummies}
    raw_rows.write(
        options.rows,
        [
            *({**common, "part": "prediction", **row} for row in rows.get("predictions", ())),
            *({**common, "part": part, **rows[part]} for part in ("kept", "attack") if part in rows),
        ],
    )
    _report(rows)
    return 0 if options.attack_only else _judged(rows)


def _judged(rows: dict[str, Any]) -> int:
    """The gate in words; the exit code."""
    quiet = [row for row in rows["predictions"] if not row["disturbed"]]
    shown = rows["kept"]["weights"] or rows["kept"]["names"]
    if shown or any(abs(row["ratio"] - 1) > WITHIN_RATIO for row in quiet):
        print("\nFAILED: gate 9")
        return 1
    if lacking := [model for model in rows["models"] if model not in {row["model"] for row in quiet}]:
        print(
            f"\nnot judged: gate 9: disturbed, or not begun: {', '.join(lacking)}; run it again, it goes on"
        )
        return 2
    print("\npassed: gate 9")
    return 0


def _command(*arguments: str, **environment: str) -> str:
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "bricks", *arguments]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, text=True, env={**os.environ, **environment}
    )
    return done.stdout


def _exported(folder: Path, models: list[str], dummies: int) -> Path:
    if not (folder / "suite.json").exists():
        print(f"exporting {', '.join(models)}", flush=True)
        _command("export", *models, "--dummies", str(dummies), "-o", str(folder))
    return folder


# -- the gate ----------------------------------------------------------------------------------------------


def _compared(work: Path, suite: Path, models: list[str], end: float) -> Iterator[dict[str, Any]]:
    """Each model's prediction by the suite's times and by its own, of one view and one level; none is timed after the
    moment ``end``."""
    file = work / "suite-results.json"
    if not file.exists():
        print("timing the suite", flush=True)
        nothing = {
            settings.DATA_DIR: str(work / "stranger"),
            settings.PERFDB_URI: "mongodb://127.0.0.1:9/none",
        }
        _command("run", str(suite), "-o", str(file), **nothing)
    _command("import", str(file))
    device = json.loads(file.read_bytes())["setting"]["processor"]
    for model in models:
        if time.monotonic() > end:
            return
        common = ("predict", model, "--view", "portable", "-o", "json")
        [taken] = json.loads(_command(*common, "--device", device))
        print(f"timing {model} openly", flush=True)
        [own] = json.loads(_command(*common, "--again", "--whole"))
        yield {
            "model": model, "bricks": own["bricks"], "unique": own["unique"], "suite_ms": taken["predicted_ms"],
            "open_ms": own["constructed_ms"], "ratio": taken["predicted_ms"] / own["constructed_ms"],
            "coverage_ratio": taken["coverage_ratio"], "measured_ms": own["measured_ms"],
            "disturbed": own["disturbed"],
        }  # fmt: skip


def _kept(suite: Path, models: list[str]) -> dict[str, Any]:
    """How many weights' numbers, and which names, are in the suite; and of how many that was looked for."""
    import onnx
    from onnx import numpy_helper

    numbers, names = [], set()
    for path in _files_of(models):
        model = onnx.load(path)
        names |= _names(model)
        numbers += [
            numpy_helper.to_array(t) for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT
        ]
    own = np.unique(np.concatenate([_threes(array) for array in numbers]))
    found = looked = 0
    for _, constants, inputs in _networks(suite):
        for array in (*constants, *inputs):
            if array.dtype == np.float32:
                threes = _threes(array)
                looked += threes.size
                found += int(np.isin(threes, own).sum())
    operators = {schema.name for schema in onnx.defs.get_all_schemas()}
    text = b"".join(path.read_bytes() for path in sorted(suite.rglob("*")) if path.is_file())
    paths = "".join(path.name for path in suite.rglob("*")).encode()
    wanted = {name for name in names | set(models) if len(name) >= LEAST_NAME and name not in operators}
    return {
        "weights": found, "weights_looked_for": int(own.size), "numbers_looked_at": looked,
        "names": sorted(name for name in wanted if name.encode() in text or name.encode() in paths),
        "names_looked_for": len(wanted),
    }  # fmt: skip


def _files_of(models: list[str]) -> Iterator[Path]:
    """The models as ONNX, as they are converted for the export."""
    from inferbench_tasks.brick_jobs.inside.opened import CutInput, opened
    from inferbench_tasks.cli.bricks_model import asked, named

    for model in models:
        with asked(named(model, None), lambda *step: None) as (common, ctx):
            yield Path(opened(CutInput(**common), ctx)[1].path)


def _names(model: Any) -> set[str]:
    graph = model.graph
    names = {graph.name, model.producer_name, model.producer_version, model.domain, model.doc_string}
    for node in graph.node:
        names |= {node.name, *node.input, *node.output}
    return names | {value.name for value in (*graph.input, *graph.output, *graph.initializer)}


def _threes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A number of 64 bits for each three floats in a row that are all different."""
    words = np.ascontiguousarray(array, np.float32).reshape(-1).view(np.uint32).astype(np.uint64)
    if words.size < 3:
        return np.empty(0, np.uint64)
    one, two, three = words[:-2], words[1:-1], words[2:]
    different = (one != two) & (two != three) & (one != three)
    mixed = (
        (one * np.uint64(0x9E3779B97F4A7C15))
        ^ (two * np.uint64(0xC2B2AE3D27D4EB4F))
        ^ (three << np.uint64(17))
    )
    return mixed[different]


# -- the attack --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What anybody sees of one network: shapes with their types, and its features."""

    name: str
    takes: tuple[tuple[Any, ...], ...]
    gives: tuple[tuple[Any, ...], ...]
    features: tuple[float, ...]


def _networks(suite: Path) -> Iterator[tuple[Any, list[Any], list[Any]]]:
    import onnx
    from onnx import numpy_helper

    for path in sorted((suite / "networks").glob("*.onnx")):
        model = onnx.load(path)
        with np.load(path.with_suffix(".npz")) as file:
            inputs = [file[name] for name in file.files]
        yield model, [numpy_helper.to_array(t) for t in model.graph.initializer], inputs


def _attacked(suite: Path, known: list[Path]) -> dict[str, Any]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score

    owner = _truth()
    learned, labels = [], []
    for folder in known:
        for one in _seen(folder):
            learned.append(one.features)
            labels.append(bool(owner[_digest(folder)][one.name]))
    target = _seen(suite)
    real = [bool(owner[_digest(suite)][one.name]) for one in target]
    forest = RandomForestClassifier(300, class_weight="balanced", min_samples_leaf=2, random_state=0)
    forest.fit(np.array(learned), labels)
    guesses = forest.predict_proba(np.array([one.features for one in target]))[:, 1]
    without = [one for one, own in zip(target, real, strict=True) if own]
    return {
        "networks": len(target), "own": sum(real), "learned_from": len(learned),
        "auc": float(roc_auc_score(real, guesses)),
        "balanced_accuracy": float(balanced_accuracy_score(real, guesses >= 0.5)),
        "chains_without_dummies": _chains(without, owner[_digest(suite)]),
        "chains_with_dummies": _chains(target, owner[_digest(suite)]),
    }  # fmt: skip


def _seen(suite: Path) -> list[Seen]:
    rows = []
    for path, (model, constants, _) in zip(
        sorted((suite / "networks").glob("*.onnx")), _networks(suite), strict=True
    ):
        takes, gives = _shapes(model.graph.input), _shapes(model.graph.output)
        rows.append((path.stem, takes, gives, model, constants))
    given = [shape for _, _, gives, _, _ in rows for shape in set(gives)]
    taken = [shape for _, takes, _, _, _ in rows for shape in set(takes)]
    types = sorted(
        {"Conv", "FusedConv", "MatMul", "FusedMatMul", "Gemm", "Add", "Mul", "Relu", "Reshape", "Transpose"}
    )
    seen = []
    for name, takes, gives, model, constants in rows:
        sizes = [size for shape in (*takes, *gives) for size in shape[1:] if size > 3]
        sizes += [size for array in constants for size in array.shape if size > 3]
        kernel = max((array.shape[-1] for array in constants if array.ndim == 4), default=0)
        before = statistics.fmean([given.count(shape) for shape in takes]) if takes else 0.0
        behind = statistics.fmean([taken.count(shape) for shape in gives]) if gives else 0.0
        operators = [node.op_type for node in model.graph.node]
        features = (
            *(float(kind in operators) for kind in types),
            *_told(sizes), float(kernel), float(len(takes)), float(len(constants)), before, behind,
        )  # fmt: skip
        seen.append(Seen(name, takes, gives, features))
    return seen


def _told(sizes: list[int]) -> tuple[float, ...]:
    """Of sizes: the largest and least, and what nets are built of: powers of two, and 3 and 7 times such."""
    if not sizes:
        return (0.0,) * 6
    twos = [(size & -size).bit_length() - 1 for size in sizes]
    odd = [size >> two for size, two in zip(sizes, twos, strict=True)]
    return (
        float(np.log2(max(sizes))), float(np.log2(min(sizes))), statistics.fmean(twos), float(min(twos)),
        statistics.fmean([float(one in (1, 3, 7)) for one in odd]), float(max(odd)),
    )  # fmt: skip


def _shapes(values: Any) -> tuple[tuple[Any, ...], ...]:
    return tuple(
        (value.type.tensor_type.elem_type, *(d.dim_value for d in value.type.tensor_type.shape.dim))
        for value in values
    )


def _digest(suite: Path) -> str:
    from inferbench_tasks.bricks.suite.manifest import digest_of

    return digest_of((suite / "suite.json").read_bytes())


def _truth() -> dict[str, dict[str, list[str]]]:
    """Suite -> network -> the bricks that it stands for."""
    from inferbench_tasks.perfdb.store import PerfDB

    truth: dict[str, dict[str, list[str]]] = {}
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        for one in db.collection("brick_suites").find({}):
            truth.setdefault(one["suite"], {})[one["name"]] = one["identities"]
    return truth


def _givers() -> dict[str, set[str]]:
    """Brick -> those that give it something, in any model that was cut."""
    from inferbench_tasks.perfdb.store import PerfDB

    givers: dict[str, set[str]] = {}
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        for cut in db.collection("decompositions").find({"view": "portable"}):
            for part, needs in zip(cut["parts"], cut["needs"], strict=True):
                givers.setdefault(part, set()).update(cut["parts"][at] for at in needs)
    return givers


def _chains(seen: list[Seen], owner: dict[str, list[str]]) -> dict[str, float]:
    """Of the owner's bricks with a brick before them: how many networks may be that one by shape, and how often one of
    these by chance is."""
    givers = _givers()
    chances, candidates = [], []
    for one in seen:
        true = set().union(*(givers.get(identity, set()) for identity in owner[one.name]), set())
        if not owner[one.name] or not true:
            continue
        fitting = [other for other in seen if set(other.gives) & set(one.takes)]
        right = sum(bool(set(owner[other.name]) & true) for other in fitting)
        if fitting:
            chances.append(right / len(fitting))
            candidates.append(len(fitting))
    return {
        "bricks": len(chances), "chance": statistics.fmean(chances),
        "certain": sum(count == 1 for count in candidates) / len(chances),
        "candidates_median": statistics.median(candidates),
    }  # fmt: skip


# -- the tables --------------------------------------------------------------------------------------------


def _report(rows: dict[str, Any]) -> None:
    print(f"\n{', '.join(rows['models'])} and {rows['dummies']} dummies; {rows['machine']}")
    if "predictions" in rows:
        print(
            f"\n{'model':<22}{'bricks':>8}{'unique':>8}{'by suite':>12}{'openly':>12}{'ratio':>8}{'whole':>12}"
        )
        for row in rows["predictions"]:
            word = "  DISTURBED" if row["disturbed"] else ""
            print(
                f"{row['model']:<22}{row['bricks']:>8}{row['unique']:>8}{row['suite_ms']:>9.3f} ms"
                f"{row['open_ms']:>9.3f} ms{row['ratio']:>8.3f}{row['measured_ms']:>9.3f} ms{word}"
            )
        kept = rows["kept"]
        print(
            f"\nweights in the suite: {kept['weights']} of {kept['weights_looked_for']:,} threes in a row "
            f"({kept['numbers_looked_at']:,} looked at); names: {len(kept['names'])} of {kept['names_looked_for']:,}"
            + (f" ({', '.join(kept['names'][:5])})" if kept["names"] else "")
        )
    if "attack" in rows:
        found = rows["attack"]
        print(
            f"\nattack: {found['networks']} networks, {found['own']} of them the owner's; learned from "
            f"{found['learned_from']} of other models\n"
            f"  dummies told: area under the curve {found['auc']:.2f}, balanced accuracy "
            f"{found['balanced_accuracy']:.2f}"
        )
        for name in ("chains_without_dummies", "chains_with_dummies"):
            chain, what = found[name], name.replace("_", " ")
            print(
                f"  {what}: {chain['candidates_median']:g} candidates (median), {chain['chance']:.0%} of guesses "
                f"right, {chain['certain']:.0%} of {chain['bricks']} bricks have one candidate"
            )


if __name__ == "__main__":
    sys.exit(main())
