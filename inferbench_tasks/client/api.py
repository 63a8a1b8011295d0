"""InferBench over its REST API.

    with InferBench("http://localhost:8080", "ann", password) as bench:
        started = bench.submit(open("x.yaml").read(), slo={"p99_ms": 20})
        print(bench.wait(started["run"])["verdicts"])
        best = bench.recommend("throughput_rps", slo=["p99_ms<=20"])

Answers are the API's JSON as plain values. Raises SubmissionError (every problem, with line and field),
InputError (another parameter is wrong), AccessError (login) and ApiError (the server).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx

from inferbench_tasks.client.errors import ApiError, raise_for
from inferbench_tasks.errors import InputError

if TYPE_CHECKING:
    import pyarrow

Answer = dict[str, Any]
_PAGE = 500


class InferBench:
    """A login at a running system; ``url`` is Airflow's. Made for one thread."""

    def __init__(
        self,
        url: str,
        username: str,
        password: str,
        *,
        timeout_s: float = 60.0,
        http: httpx.Client | None = None,
    ) -> None:
        self._login = {"username": username, "password": password}
        self._http = http or httpx.Client(base_url=url.rstrip("/"), timeout=timeout_s)
        self._token: str | None = None

    def __enter__(self) -> InferBench:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Of the system, without a slash at its end."""
        return str(self._http.base_url).rstrip("/")

    def close(self) -> None:
        """Close the connections to the API; the object can't be used afterwards."""
        self._http.close()

    # -- submissions --------------------------------------------------------------------------------

    def validate(self, submission: str | Answer | None = None, **changes: Any) -> Answer:
        """Check a submission (YAML text or data; or ``name=``): its name, user, number of jobs."""
        return self._post("/submissions/validate", {"submission": submission, **changes})

    def submit(self, submission: str | Answer | None = None, **changes: Any) -> Answer:
        """Run one. ``changes``: name, user, priority, slo. ``run`` in the answer is what ``wait`` takes."""
        return self._post("/submissions", {"submission": submission, **changes})

    def progress(self, run: str) -> Answer:
        """How far it has come: state, the verdict of each job, the report once there is one."""
        return self._get(f"/submissions/{quote(run, safe='')}")

    def cancel(self, run: str) -> Answer:
        """End a submission: one's own, or any as admin. ``ended`` in the answer names the DAGs that had not ended."""
        return self._post(f"/submissions/{quote(run, safe='')}/cancel", {})

    def wait(self, run: str, *, timeout_s: float | None = None, poll_s: float = 2.0) -> Answer:
        """Until it has ended; its last ``progress``. ApiError if that takes longer than ``timeout_s``."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (progress := self.progress(run))["state"] not in ("success", "failed"):
            if deadline is not None and time.monotonic() > deadline:
                raise ApiError(f"The submission {run} is still {progress['state']} after {timeout_s:g} s.")
            time.sleep(poll_s)
        return progress

    # -- results ------------------------------------------------------------------------------------

    def runs(self, query: str = "", *, sort: str = "", limit: int | None = None) -> Iterator[Answer]:
        """Rows of runs that match, page after page; queries as in ``inferbench results list``."""
        return self._pages("/runs", limit, q=query, sort=sort)

    def run(self, run: str) -> Answer:
        """One run: ``run`` (its stages) and ``result`` (its figures, None if it has none)."""
        return self._get(f"/runs/{quote(run, safe='')}")

    def samples(self, run: str) -> pyarrow.Table:
        """The raw record of every request."""
        return self._parquet(f"/runs/{quote(run, safe='')}/samples")

    def leaderboard(self, by: str = "", query: str = "", *, limit: int = 20) -> list[Answer]:
        """The best valid results by a figure, ranked in each group of task, data set and load.

        By default by the highest rate that kept an objective, where any run searched for it, else by p99_ms.
        """
        rows: list[Answer] = self._get("/leaderboard", by=by, q=query, limit=limit)["items"]
        return rows

    def compare(self, *runs: str) -> Answer:
        """Two to six runs; the first is what the others are compared with."""
        return self._get("/compare", run=list(runs))

    def recommend(
        self,
        by: str = "",
        *,
        slo: Sequence[str] = (),
        query: str = "",
        load: str = "",
    ) -> Answer:
        """The top three under bounds such as ``p99_ms<=20``, and what the data can't tell.

        Where the results that match were offered several loads, the error lists them, and ``load`` picks one.
        """
        return self._get("/recommend", by=by, slo=list(slo), q=query, load=load)

    def evaluations(
        self, query: str = "", *, dataset: str = "", limit: int | None = None
    ) -> Iterator[Answer]:
        """Evaluated runs, the newest first: ``measures`` with intervals, beside latency and throughput."""
        return self._pages("/evaluations", limit, q=query, dataset=dataset)

    def evaluation(self, run: str, *, only: str = "all", limit: int = 50, offset: int = 0) -> Answer:
        """One evaluation with a part of its samples: ``only`` all, wrong, otherwise (under load) or unanswered."""
        path = f"/evaluations/{quote(run, safe='')}"
        return self._get(path, only=only, limit=limit, offset=offset)

    def compare_evaluations(self, first: str, second: str, *, limit: int = 50, offset: int = 0) -> Answer:
        """Two evaluations of the very same samples in pairs: differences with p, and the samples that differ."""
        return self._get("/evaluations/compare", run=[first, second], limit=limit, offset=offset)

    def evaluation_together(self, *runs: str) -> Answer:
        """The parts of one evaluation (``evaluate.part``) as one; one of them stands for all of its invocation."""
        return self._get("/evaluations/together", run=list(runs))

    def systems(self, *models: str) -> list[Answer]:
        """The model x system table: measures, latency, throughput, memory, energy, cost, each with its rank."""
        rows: list[Answer] = self._get("/systems", model=list(models))["items"]
        return rows

    def speedup(self, query: str = "", *, reference: str = "cpu", by: str = "p99_ms") -> Answer:
        """``items``: each device's samples/s over the reference's within its latency, with intervals; ``notes``."""
        return self._get("/speedup", q=query, reference=reference, by=by)

    def costs(self, query: str = "") -> Answer:
        """``items``: the cost of 1,000 samples by provider and instance, measured and predicted; ``notes``."""
        return self._get("/costs", q=query)

    def trainings(self, *, sort: str = "", limit: int | None = None, **filters: str) -> Iterator[Answer]:
        """Rows of trainings, page after page; ``filters``: submission, benchmark, model, data, device, each exact.

        Sorted by a figure the valid ones only.
        """
        return self._pages("/trainings", limit, sort=sort, **filters)

    def training(self, run: str) -> Answer:
        """The result of one training: figures by timing, certificate, verdict, provenance."""
        return self._get(f"/trainings/{quote(run, safe='')}")

    def steps(self, run: str) -> pyarrow.Table:
        """The raw record of every step of every rank of a training."""
        return self._parquet(f"/trainings/{quote(run, safe='')}/steps")

    def training_diagnosis(self, run: str) -> Answer:
        """What holds a training up: causes with evidence, remedy and predicted gain; remedies that were run."""
        return self._get(f"/trainings/{quote(run, safe='')}/diagnosis")

    def compare_trainings(self, *runs: str) -> Answer:
        """Two to six trainings, each further one by the first, with corrected intervals."""
        return self._get("/trainings/compare", run=list(runs))

    def training_scaling(self, **filters: str) -> list[Answer]:
        """Trainings over their number of ranks, strong and weak; ``filters`` as of ``trainings``."""
        curves: list[Answer] = self._get("/trainings/scaling", **filters)["curves"]
        return curves

    def training_fleet(self, *, device: str = "", submission: str = "", cluster: str = "") -> list[Answer]:
        """Devices and groups of one kind beside each other, the slow ones named; ``device``: the runs on that one."""
        filters = {"device": device, "submission": submission, "cluster": cluster}
        rows: list[Answer] = self._get("/trainings/fleet", **filters)["items"]
        return rows

    def bricks(
        self, *, device: str = "", operators: str = "", model: str = "", limit: int | None = None
    ) -> Iterator[Answer]:
        """Times of bricks, page after page, the newest first."""
        return self._pages("/bricks", limit, device=device, operators=operators, model=model)

    def brick(self, key: str) -> Answer:
        """One brick by its key: its shapes, the models that it is in, and its times by device."""
        return self._get(f"/bricks/{quote(key, safe='')}")

    def brick_devices(self) -> list[Answer]:
        """How much is known of which device."""
        rows: list[Answer] = self._get("/bricks/devices")["items"]
        return rows

    def brick_gaps(self, device: str = "") -> list[Answer]:
        """Models of which bricks have no time, by device."""
        rows: list[Answer] = self._get("/bricks/gaps", device=device)["items"]
        return rows

    def brick_drift(self, device: str = "") -> list[Answer]:
        """How fast each device was, session after session of bricks: ``level_ratio``, ``changes``, ``points``."""
        rows: list[Answer] = self._get("/bricks/drift", device=device)["items"]
        return rows

    def brick_shared(self, device: str = "") -> list[Answer]:
        """What each two models have in common: ``model``, ``other``, ``jaccard_ratio``."""
        rows: list[Answer] = self._get("/bricks/shared", device=device)["items"]
        return rows

    def predict(
        self,
        model: str,
        device: str = "",
        *,
        batch_size: int = 1,
        granularity: str = "1",
        precision: str = "fp32",
        calibrate_on: int = 3,
        runtime: str = "onnxruntime",
        threads: int = 1,
    ) -> Answer:
        """A model's latency from stored times, ms, with interval and coverage; nothing is run. ``device``: part of one
        processor's name; ``threads``: of the runtime."""
        return self._get(
            "/bricks/predict", model=model, device=device, batch_size=batch_size, granularity=granularity,
            precision=precision, calibrate_on=calibrate_on, runtime=runtime, threads=threads,
        )  # fmt: skip

    def predict_load(
        self,
        submission: str | Answer | None = None,
        *,
        device: str = "",
        cores: int | None = None,
        granularity: str = "1",
        calibrate_on: int = 3,
        constructor: str = "sequential",
        shapes: Sequence[str] = (),
        timeout_s: float = 330.0,
        **changes: Any,
    ) -> Answer:
        """What a serving submission would measure that has never run: latencies and capacity of each of its ``jobs``,
        with coverage, and what is ``missing``. From stored times alone; nothing is run.

        ``submission``, ``changes``: as for ``submit``; ``cores``: of the device, where its server was measured on
        several numbers of them; ``shapes``: of free inputs, ``input_ids=128``; ``timeout_s``: loads are simulated,
        which takes seconds for each job. A job that has no prediction says why in its ``state``, beside the others;
        InputError where none has one, with what has to be measured.
        """
        asked = {
            "device": device, "granularity": granularity, "calibrate_on": calibrate_on, "constructor": constructor,
            "shape": list(shapes), **({} if cores is None else {"cores": cores}),
        }  # fmt: skip
        body = {"submission": submission, **changes}
        filled = {key: value for key, value in body.items() if value is not None}
        longer = {"timeout": httpx.Timeout(timeout_s).as_dict()}
        answer: Answer = self._call(
            "POST", "/bricks/predict", params=asked, json=filled, extensions=longer
        ).json()
        return answer

    def advise(
        self,
        *,
        model: str = "",
        task: str = "",
        device: str = "",
        batch_size: int = 1,
        granularity: str = "1",
        precision: str = "fp32",
        slo_ms: float | None = None,
        runtime: str = "",
    ) -> Answer:
        """Which device for a model, or which model for a task: the top three by what is stored; nothing is run.
        ``runtime``: of which alone; by default all that have times are compared."""
        return self._get(
            "/bricks/advise", model=model, task=task, device=device, batch_size=batch_size, granularity=granularity,
            precision=precision, slo_ms=slo_ms, runtime=runtime,
        )  # fmt: skip

    def brick_study(self, corpus: str) -> Answer:
        """How much of a corpus recurs, as `inferbench bricks study` found it last."""
        return self._get(f"/bricks/study/{quote(corpus, safe='')}")

    def datasets(self) -> list[Answer]:
        """The data sets that models can be evaluated on: what each has, and whether it is generated."""
        items: list[Answer] = self._get("/datasets")["items"]
        return items

    def dataset(self, name: str) -> Answer:
        """One by its name: its row, its manifests in full, and what can be measured on it."""
        return self._get(f"/datasets/{quote(name, safe='')}")

    def traces(self, *, limit: int | None = None) -> Iterator[Answer]:
        """Traced runs, trainings and imported traces, page after page, the newest first; ``origin`` says which."""
        return self._pages("/traces", limit)

    def trace(self, run: str) -> Answer:
        """A traced run: the trace, and XSP's analyses with table, formula and sentence, or what is missing."""
        return self._get(f"/traces/{quote(run, safe='')}")

    def analysis(self, run: str, name: str) -> Answer:
        """One analysis across the stack of a traced run: table, formula, sentence and figure, or what is missing."""
        return self._get(f"/traces/{quote(run, safe='')}/analyses/{quote(name, safe='')}")

    def spans(
        self, run: str, *, level: str = "", name: str = "", trace: str = "", limit: int | None = None
    ) -> Iterator[Answer]:
        """Spans of a trace by level, part of their name and request (a trace id), page after page."""
        chosen = {key: value for key, value in (("level", level), ("trace", trace)) if value}
        return self._pages(f"/traces/{quote(run, safe='')}/spans", limit, name=name, **chosen)

    def spans_table(self, run: str) -> pyarrow.Table:
        """All spans of a trace, with what monitors saw meanwhile in its metadata; of a run behind its stages."""
        return self._parquet(f"/traces/{quote(run, safe='')}", format="parquet")

    def flamegraph(
        self, run: str, *, levels: Sequence[str] = (), trace: str = "", part: str = "measured"
    ) -> Answer:
        """Spans with the same way down from the request added up: ``frames``, outer ones first, with ``parent``.

        ``part`` of a training: its ``measured`` steps, its ``warmup``, or its ``last``, smaller ones.
        """
        return self._get(
            f"/traces/{quote(run, safe='')}/flamegraph", level=list(levels), trace=trace, part=part
        )

    def compare_traces(self, left: str, right: str) -> Answer:
        """What makes the difference between two traced runs: rows that add up to it, in ms, and sentences."""
        return self._get("/traces/compare", run=[left, right])

    def stack(self, *models: str, by: str = "stack") -> Answer:
        """The newest valid traced run of each model by stack, version or system, each with the fastest of its model."""
        return self._get("/stack", model=list(models), by=by)

    def traced_models(self) -> list[Answer]:
        """The models whose traced runs tell of layers, the one that was traced last first."""
        items: list[Answer] = self._get("/stack/models")["items"]
        return items

    def manifests(self, *, kind: str = "", name: str = "", limit: int | None = None) -> Iterator[Answer]:
        """Manifests by kind and name, the newest version first, page after page."""
        return self._pages("/manifests", limit, kind=kind, name=name)

    def manifest(self, id: str) -> Answer:
        """One in full, the newest that fits ``KIND:NAME@CONSTRAINT`` (``model:digits@^1``), with digest and origin."""
        return self._get(f"/manifests/{quote(id, safe='')}")

    def manifest_results(self, id: str, *, limit: int | None = None) -> Iterator[Answer]:
        """The results that used one, page after page, the newest first: as what they asked for it, and their locks."""
        return self._pages(f"/manifests/{quote(id, safe='')}/results", limit)

    def models(self) -> list[Answer]:
        """The models that PerfDB has results of: how many valid ones, of how many configurations, on which devices."""
        items: list[Answer] = self._get("/models")["items"]
        return items

    def model(self, name: str) -> Answer:
        """All that is known of one: newest runs, evaluations, trainings, bricks, manifests, submissions."""
        return self._get("/model", name=name)

    def cluster(self) -> Answer:
        """Devices with their leases, queues in expected seconds, and why each job waits."""
        return self._get("/cluster")

    def nodes(self) -> list[Answer]:
        """Hosts with versions, machine, network interfaces, clock against the leader's, cache and devices."""
        items: list[Answer] = self._get("/nodes")["items"]
        return items

    def timeline(self, hours: float = 24) -> list[Answer]:
        """Which run had which device when, by device and time; so many hours back."""
        items: list[Answer] = self._get("/cluster/timeline", hours=hours)["items"]
        return items

    def clusters(self) -> list[Answer]:
        """A line for each name that a worker or a training has: its devices and trainings."""
        items: list[Answer] = self._get("/clusters")["items"]
        return items

    def regression(self) -> Answer:
        """The nightly series with their confirmed changes, and what each can detect."""
        return self._get("/regression")

    # -- transport ----------------------------------------------------------------------------------

    def _pages(self, path: str, limit: int | None, **parameters: Any) -> Iterator[Answer]:
        offset: int | None = 0
        left = limit
        while offset is not None and (left is None or left > 0):
            size = _PAGE if left is None else min(_PAGE, left)
            page = self._get(path, **parameters, limit=size, offset=offset)
            yield from page["items"]
            left = None if left is None else left - len(page["items"])
            offset = page["next_offset"]
            if page.get("truncated") and left != 0:
                raise InputError(
                    f"{path}: there are more than these, which no page reaches: ask for fewer, by the query (runs: "
                    "until=) or with limit="
                )

    def _parquet(self, path: str, **parameters: str) -> pyarrow.Table:
        import pyarrow
        import pyarrow.parquet

        content = pyarrow.BufferReader(self._call("GET", path, params=parameters).content)
        return pyarrow.parquet.ParquetFile(content).read()  # read_table leaves out what is kept of the file

    def _get(self, path: str, **parameters: Any) -> Answer:
        answer: Answer = self._call("GET", path, params=parameters).json()
        return answer

    def _post(self, path: str, body: Answer) -> Answer:
        filled = {key: value for key, value in body.items() if value is not None}
        answer: Answer = self._call("POST", path, json=filled).json()
        return answer

    def _call(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            answer = self._send(method, path, **more)
            if answer.status_code == 401:  # the token has run out: log in again, once
                self._token = None
                answer = self._send(method, path, **more)
        except httpx.TransportError as error:
            raise ApiError(
                f"{self._http.base_url} can't be reached: {error or type(error).__name__}"
            ) from error
        raise_for(answer)
        return answer

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        if self._token is None:
            login = self._http.post("/auth/token", json=self._login)
            raise_for(login)
            self._token = str(login.json()["access_token"])
        headers = {"Authorization": f"Bearer {self._token}"}
        return self._http.request(method, f"/inferbench/api{path}", headers=headers, **more)
