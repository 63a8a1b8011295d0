"""``inferbench artifacts``: what travels between hosts, where it is, and what of it may go."""

from __future__ import annotations

import re
from datetime import timedelta

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.collect import GRACE, collect
from inferbench_tasks.stores.holdings import Holdings
from inferbench_tasks.stores.ledger import Known, Ledger
from inferbench_tasks.stores.put import put_wanted

app = typer.Typer(no_args_is_help=True, help="What travels between hosts: models, conversions, requests.")


@app.command(name="list")
def list_(output: OutputFormat = OUTPUT) -> None:
    """All artifacts that PerfDB knows, those used last first: size, stores, and the hosts that had them."""
    with _perfdb() as db:
        rows = [_row(known) for known in Ledger(db).all()]
    emit(rows, output)


@app.command()
def show(
    artifact: str = typer.Argument(..., help="Its digest, or how it begins."), output: OutputFormat = OUTPUT
) -> None:
    """One artifact: what it is, whether a run needs it, where it is here, and what was found damaged."""
    with _perfdb() as db:
        ledger = Ledger(db)
        known = _one(ledger, artifact)
        needed = bool(ledger.needed([known.digest]))
    root = Holdings(settings.data_dir()).root_of(known.digest)
    about = known.model_dump(
        mode="json", exclude={"wanted_at", "wanted_by"} if not known.wanted_at else set()
    )
    emit([{**about, "needed": needed, "here": str(root) if root else None}], output)


@app.command()
def put(
    artifacts: list[str] | None = typer.Argument(
        None, help="Digests, or how they begin; without: what others ask for."
    ),
) -> None:
    """Put artifacts of this host into the store: what other hosts wait for, or those that are named.

    A system that `inferbench up` started does the first by itself.
    """
    from inferbench_tasks.stores.put import put as put_one

    data_dir = settings.data_dir()
    with _perfdb() as db:
        holdings, ledger = Holdings(data_dir), Ledger(db)
        if artifacts:
            known = [_one(ledger, artifact) for artifact in artifacts]
            stored = [one.digest for one in known if put_one(db, holdings, one.digest)]
        else:
            stored = put_wanted(db, holdings, settings.home_id(data_dir))
    say(f"stored {len(stored)} artifact(s)")


@app.command()
def gc(
    grace: str = typer.Option(
        f"{GRACE.days}d", "--grace", help="What was used within this time stays: 7d, 12h."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only list what would go, and what stays and why."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Remove from the store what no run in PerfDB refers to. What a stored result refers to always stays."""
    match = re.fullmatch(r"(\d{1,5})(d|h)", grace)
    if match is None:
        raise InputError(f"--grace {grace!r}: days or hours are needed, such as 7d or 12h")
    period = timedelta(**{{"d": "days", "h": "hours"}[match[2]]: int(match[1])})
    with _perfdb() as db:
        outcomes = collect(db, period, dry_run=dry_run)
    rows = [
        {
            "artifact": outcome.digest[:12],
            "mb": round(outcome.bytes / 1e6, 1),
            "days": round(outcome.days, 1),
            "stays": outcome.stays or None,
        }
        for outcome in outcomes
    ]
    emit(rows, output)
    gone = [outcome for outcome in outcomes if not outcome.stays]
    size = sum(outcome.bytes for outcome in gone)
    say(f"{'would remove' if dry_run else 'removed'} {len(gone)} of {len(outcomes)}, {size / 1e6:,.1f} MB")


def _perfdb() -> PerfDB:
    return PerfDB.connect(settings.perfdb_uri(), settings.data_dir())


def _one(ledger: Ledger, text: str) -> Known:
    if not re.fullmatch("[0-9a-f]{4,64}", text):
        raise InputError(f"{text[:80]!r} is no digest of an artifact (4 to 64 hex digits)")
    found = ledger.matching(text)
    if len(found) != 1:
        raise InputError(
            f"{len(found) or 'no'} artifact(s) begin with {text}; `inferbench artifacts list` shows all"
        )
    return found[0]


def _row(known: Known) -> dict[str, object]:
    return {
        "artifact": known.digest[:12],
        "files": known.files,
        "mb": round(known.bytes / 1e6, 1),
        "names": ", ".join(known.names[:3]) + (", …" if known.files > 3 else ""),
        "stored": ", ".join(known.stored) or None,
        "hosts": ", ".join(sorted(set(known.homes.values()))) or None,
        "used": known.used_at.isoformat(timespec="seconds"),
        "wanted_by": known.wanted_by or None,
        "faults": len(known.faults),
    }
