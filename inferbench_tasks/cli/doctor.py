"""``inferbench doctor``: is this installation closed to who should not get in?"""

from __future__ import annotations

import typer

from inferbench_tasks import settings
from inferbench_tasks.doctor.base import Installation
from inferbench_tasks.doctor.checks import examine
from inferbench_tasks.output import OUTPUT, OutputFormat, emit

app = typer.Typer()


@app.command()
def doctor(
    as_json: bool = typer.Option(False, "--json", help="The same as --output json."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Check modes, ports, logins, secrets and versions here, each finding with its remedy; exit 1 on a finding.

    It starts and changes nothing. Run it while the system is up: what does not run can't be asked.
    """
    advices = examine(Installation(settings.data_dir()))
    emit([advice.model_dump() for advice in advices], OutputFormat.json if as_json else output)
    if any(advice.level == "finding" for advice in advices):
        raise typer.Exit(1)
