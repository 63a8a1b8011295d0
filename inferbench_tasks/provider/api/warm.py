"""The API server's start: what the first page would have to wait for is read before anybody asks for it."""

from __future__ import annotations

import gc
import logging
import threading
import time
from typing import Any

from inferbench_tasks.provider.api.application import application

log = logging.getLogger(__name__)
#: Each is a reading of all results.
SETTINGS_AHEAD = 2
#: Leaderboards are read of so many kinds of devices.
DEVICE, DEVICES_AHEAD = "device.kind", 4


class Warm:
    """Lets every request pass; once the server has started, a thread begins to read.

    A middleware, for nothing else of a plugin is told of the start; and not before the start, which must not wait.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                threading.Thread(target=warm, name="inferbench-warm", daemon=True).start()

        await self._app(scope, receive, sent if scope["type"] == "lifespan" else send)


def warm() -> None:
    """Import the application and read the results of the PerfDB that is there; one that is away is only logged."""
    began = time.monotonic()
    # Before all that it imports too: only ``application`` keeps the threads of the first requests out meanwhile.
    application()
    from inferbench_tasks import settings
    from inferbench_tasks.errors import InferBenchError
    from inferbench_tasks.perfdb import embedded
    from inferbench_tasks.provider.api.access import store

    try:
        # An Airflow that has the plugin and runs no benchmark is not given a MongoDB for this.
        if settings.perfdb_uri() is None and not embedded.status(settings.data_dir())["running"]:
            return
        count = read_ahead(store())
    except InferBenchError as error:
        log.warning("the first page will be slow: PerfDB could not be read ahead error=%s", error)
        return
    log.info("pages are ready results=%d took_s=%.1f", count, time.monotonic() - began)


def read_ahead(db: Any) -> int:
    """What all pages share: the valid results, the suggestions of their forms, the templates, the first settings that
    pictures can be coloured by, how energies were got, the leaderboards, of each kind of device too, the home with what
    Airflow was sent, the invalid runs, what the first comparison imports and the store needs for it, the systems of the
    newest models, and what networks say of themselves; how many results.
    """
    from fastapi import HTTPException

    from inferbench_tasks.analysis import energy_ground
    from inferbench_tasks.analysis.recommend.available import available
    from inferbench_tasks.analysis.recommend.leaderboard import board_of, usual_figure
    from inferbench_tasks.analysis.systems.found import newest_models
    from inferbench_tasks.analysis.systems.table import table
    from inferbench_tasks.errors import InputError
    from inferbench_tasks.figures import FIGURES
    from inferbench_tasks.manifests.catalogue import Catalogue
    from inferbench_tasks.perfdb.fields import field
    from inferbench_tasks.perfdb.held import held, identity
    from inferbench_tasks.provider.api.questions import compared
    from inferbench_tasks.provider.api.runs import page_of
    from inferbench_tasks.provider.ui.colours import colours
    from inferbench_tasks.provider.ui.filters import suggestions
    from inferbench_tasks.provider.ui.home import home_part
    from inferbench_tasks.provider.ui.pages import MOST_ROWS, PAGE_SIZE, ROWS_IN_ALL
    from inferbench_tasks.provider.ui.render import compile_templates
    from inferbench_tasks.provider.ui.systems_page import MOST_ROWS as SYSTEMS_ON_PAGE

    compile_templates()
    suggestions(db)
    available(db)
    index = held(db)
    rows = index.rows()
    for name in colours(db)["Settings of the server"][:SETTINGS_AHEAD]:
        index.values(field(name).path)
    if index.any(FIGURES.named("joule_per_sample").field_path, rows):
        for path in energy_ground.PATHS:
            index.values(f"summary.{path}")
    newest = list(dict.fromkeys(identity(row)[0] for row in rows[:2]))
    if len(newest) == 2:
        try:
            compared(db, newest)
        except (
            InputError,
            HTTPException,
        ) as error:  # two that can't be compared, or one that was just removed
            log.info("no comparison was made ahead: %s", error)
    columns = [f.name for f in FIGURES.on("board")]
    device = index.values(DEVICE)
    kinds = sorted({str(kind) for row in rows if (kind := device(row))})[:DEVICES_AHEAD]
    for query in ("", *(f"device={kind}" for kind in kinds)):
        for name in columns:
            board_of(db, name, query, limit=PAGE_SIZE, beside=columns, in_all=ROWS_IN_ALL)
    for beside in (columns, ()):
        board_of(db, usual_figure(db), limit=MOST_ROWS, beside=beside)
    page_of(db, "verdict=invalid", "", PAGE_SIZE, 0)
    home_part(
        db
    )  # Airflow's models, which it asks, take as long to import as all other parts of the first page
    shown_models, _ = newest_models(db, SYSTEMS_ON_PAGE)
    table(db, shown_models, required=False)
    try:
        Catalogue.here(db, "model")  # reads what each network's module says of it
    except InputError as error:  # a file of the user's is wrong; who asks for manifests is told
        log.info("no manifests were read ahead: %s", error)
    # All this stays: Python's collector, which stops every page, need not look through it again and again.
    gc.collect()
    gc.freeze()
    return len(rows)
