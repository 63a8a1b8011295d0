"""``inferbench manifests``: models, frameworks, data sets, scenarios and stacks by name and version."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.manifests.catalogue import Catalogue, Entry, parse_id
from inferbench_tasks.manifests.difference import differences
from inferbench_tasks.manifests.kinds.base import KINDS, Manifest
from inferbench_tasks.manifests.reading import read_manifest
from inferbench_tasks.manifests.store import ManifestStore
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.submission.finding import unknown

app = typer.Typer(
    no_args_is_help=True,
    help="Models, frameworks, data sets, scenarios and stacks by name and version.\n\n"
    "A version never changes. Built-in ones are made of what is installed; others lie in configs/manifests or in "
    "PerfDB. ID: KIND:NAME@CONSTRAINT, such as model:digits@^1; the newest version that fits is taken.",
)
ID = typer.Argument(
    ..., metavar="ID", help="KIND:NAME@CONSTRAINT; the kind may be left out where it is clear."
)
FILES = typer.Argument(..., metavar="FILE...", help="YAML files, a manifest each.")


@app.command(name="list")
def list_(
    kind: str = typer.Argument("", metavar="[KIND]", help=f"{', '.join(KINDS)}; all without."),
    name: str = typer.Option("", "--name", help="Only this one, in all its versions."),
    output: OutputFormat = OUTPUT,
) -> None:
    """All manifests, by kind and name, the newest version first."""
    if kind and kind not in KINDS:
        raise InputError(unknown(KINDS, kind), field="KIND")
    with _perfdb() as db:
        entries = Catalogue.here(db).entries(kind, name)
    emit([entry.row() for entry in entries], output)


@app.command()
def show(id: str = ID, output: OutputFormat = OUTPUT) -> None:
    """One manifest in full, with its digest and where it is from."""
    with _perfdb() as db:
        entry = find(Catalogue.here(db), id)
    emit({**entry.manifest.content(), "digest": entry.manifest.digest, "origin": entry.origin}, output)


@app.command()
def add(files: list[Path] = FILES, output: OutputFormat = OUTPUT) -> None:
    """Keep manifests in PerfDB. All are checked first; one whose version has other content already is refused."""
    manifests = [read_manifest(path) for path in files]
    with _perfdb() as db:
        known = Catalogue.here(db).entries()
        Catalogue(
            [*known, *(Entry(manifest, str(path)) for manifest, path in zip(manifests, files, strict=True))]
        )
        store = ManifestStore(db)
        rows = [{**manifest.row(), "new": store.add(manifest, getpass.getuser())} for manifest in manifests]
    emit(rows, output)
    say(f"{sum(row['new'] for row in rows)} of {len(rows)} new")


@app.command("import")
def import_(
    files: list[Path] = typer.Argument(..., metavar="FILE...", help="Model manifests of MLModelScope, YAML."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Keep nothing; print each manifest as ours."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Take MLModelScope's model manifests over; what can't be (code, images, a second file) is listed, never run.

    All are checked first; one whose version has other content already is refused. Nothing is fetched: get the model's
    file, and name it with kind: file in a version of your own.
    """
    from inferbench_tasks.manifests.mlmodelscope import read_mlmodelscope

    read = [(path, *read_mlmodelscope(path)) for path in files]
    left = [{"file": str(path), **row} for path, _, rows in read for row in rows]
    if dry_run:
        contents = [manifest.content() for _, manifest, _ in read]
        emit(
            {"manifests": contents, "left": left},
            OutputFormat.yaml if output is OutputFormat.table else output,
        )
        return
    with _perfdb() as db:
        known = Catalogue.here(db).entries()
        Catalogue([*known, *(Entry(manifest, str(path)) for path, manifest, _ in read)])
        store = ManifestStore(db)
        rows = [{**manifest.row(), "new": store.add(manifest, getpass.getuser())} for _, manifest, _ in read]
    if output is not OutputFormat.table:
        emit({"manifests": rows, "left": left}, output)
        return
    emit(rows, output)
    say(f"{sum(row['new'] for row in rows)} of {len(rows)} new; not taken over:")
    emit(left, output)


@app.command()
def diff(
    left: str = typer.Argument(..., metavar="LEFT", help="An ID, or a YAML file."),
    right: str = typer.Argument(..., metavar="RIGHT", help="An ID, or a YAML file."),
    output: OutputFormat = OUTPUT,
) -> None:
    """What two manifests say differently, field by field."""
    with _perfdb() as db:
        catalogue = Catalogue.here(db)
    first, second = (_file_or_id(catalogue, text) for text in (left, right))
    rows = differences(first.content(), second.content(), first.id, second.id)
    emit(rows, output)
    if not rows:
        say(f"{first.id} and {second.id} say the same.")


@app.command()
def lock(
    file: Path = typer.Argument(..., metavar="FILE", help="A submission."),
    output: OutputFormat = OUTPUT,
) -> None:
    """What each job of a submission would run here: every version, hash and digest known before it. Runs nothing.

    The table has a row per job; -o yaml or -o json has the locks in full, as results keep them.
    """
    from inferbench_tasks.manifests.lock import planned
    from inferbench_tasks.running.cluster_abilities import of_machine_here
    from inferbench_tasks.submission.reader import read_submission
    from inferbench_tasks.submission.schema import serving_only
    from inferbench_tasks.submission.sweep import expand

    submission = serving_only(read_submission(file, of_machine_here(settings.data_dir())), "a lock")
    locks = [(job.job_id, job.point, planned(job.spec)) for job in expand(submission)]
    if output is not OutputFormat.table:
        emit([{"job": job, "point": point, "lock": each} for job, point, each in locks], output)
        return
    emit([_lock_row(job, each) for job, _, each in locks], output)


def _lock_row(job: str, lock: dict[str, Any]) -> dict[str, Any]:
    runtime, framework = lock["runtime"], lock["framework"] or {}
    return {
        "job": job,
        "model": lock["model"]["name"] or lock["model"]["kind"],
        "framework": f"{framework.get('name')} {framework.get('version')}" if framework else None,
        "runtime": f"{runtime['package'] or runtime['backend']} {runtime['version'] or '?'}",
        "where": runtime["where"],
        "inferbench": lock["inferbench"]["version"],
        "digest": lock["digest"][:12],
    }


def find(catalogue: Catalogue, text: str) -> Entry:
    """The manifest that an id means. InputError, which says what there is."""
    kind, name, constraint = parse_id(text)
    kinds = [kind] if kind else sorted({entry.manifest.kind for entry in catalogue.entries(name=name)})
    if not kinds:
        raise InputError(f"there is no manifest of the name {name!r}; `inferbench manifests list` shows all")
    if len(kinds) > 1:
        raise InputError(
            f"{name} is a name of several kinds: say {' or '.join(f'{k}:{name}' for k in kinds)}"
        )
    return catalogue.resolve(kinds[0], name, constraint).entry


def _file_or_id(catalogue: Catalogue, text: str) -> Manifest:
    if text.endswith((".yaml", ".yml")):
        return read_manifest(Path(text))
    return find(catalogue, text).manifest


def _perfdb() -> PerfDB:
    return PerfDB.connect(settings.perfdb_uri(), settings.data_dir())
