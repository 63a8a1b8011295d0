"""InferBench's web application within Airflow's API server: the REST API and the pages.

A plugin's routes are open to anyone unless each is protected: the whole application asks for a login here,
FastAPI's own documentation routes included (they are ours, so that they ask as well).
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI

from inferbench_tasks.provider.api import (
    bricks,
    bricks_load,
    cluster,
    datasets,
    devices,
    evaluations,
    manifests,
    models,
    plan,
    points,
    questions,
    regression,
    runs,
    stack,
    submissions,
    systems,
    traces,
    trainings,
)
from inferbench_tasks.provider.api.access import READER
from inferbench_tasks.provider.api.limits import PlainAddress
from inferbench_tasks.provider.api.parameters import DECLARED
from inferbench_tasks.provider.api.problems import install
from inferbench_tasks.provider.ui import bricks as brick_pages
from inferbench_tasks.provider.ui import (
    cluster_page,
    compare_page,
    dataset_pages,
    devices_page,
    evaluation_pages,
    files,
    following,
    home,
    manifest_pages,
    model_pages,
    new_page,
    pages,
    perfetto,
    pushed,
    recommend_page,
    run_page,
    stack_page,
    systems_page,
    trace_pages,
)
from inferbench_tasks.provider.ui import training_pages as scaling_and_clusters
from inferbench_tasks.provider.ui import trainings as training_pages

app = FastAPI(
    title="InferBench",
    description="Submit benchmarks; read their results. Log in as with Airflow's own API: "
    "`POST /auth/token`, then `Authorization: Bearer <token>`.",
    dependencies=[READER, DECLARED],
    servers=[{"url": "/inferbench"}],
    openapi_url=None,
    docs_url=None,
    redoc_url=None,
)
api = APIRouter(prefix="/api")
for part in (
    plan,
    submissions,
    runs,
    questions,
    points,
    trainings,
    bricks,
    bricks_load,
    traces,
    stack,
    systems,
    devices,
    datasets,
    evaluations,
    manifests,
    models,
    cluster,
    regression,
):
    api.include_router(part.router)


@api.get("/openapi.json", include_in_schema=False)
def openapi() -> dict[str, Any]:
    """This API's description, OpenAPI 3."""
    return app.openapi()


app.include_router(api)
app.include_router(files.router)
app.include_router(home.router)
app.include_router(new_page.router)
app.include_router(pages.router)
app.include_router(model_pages.router)
app.include_router(cluster_page.router)
app.include_router(compare_page.router)
app.include_router(recommend_page.router)
app.include_router(run_page.router)
app.include_router(following.router)
app.include_router(pushed.router)
app.include_router(training_pages.router)
app.include_router(scaling_and_clusters.router)
app.include_router(brick_pages.router)
app.include_router(evaluation_pages.router)
app.include_router(dataset_pages.router)
app.include_router(manifest_pages.router)
app.include_router(systems_page.router)
app.include_router(stack_page.router)
app.include_router(trace_pages.router)
app.include_router(perfetto.router)
app.include_router(devices_page.router)
app.add_middleware(PlainAddress)
install(app)
