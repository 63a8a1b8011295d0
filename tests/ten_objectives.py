"""MLModelScope's ten objectives on a running system: ``docs/explanation/mlmodelscope.md`` says for each what shows it,
and here that is run in the words that stand there, and held to what the page says.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from inferbench_tasks.analysis.evaluations.stored import answers_of
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.client import InferBench
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.manifests.lock import compare
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.provider.system.config import passwords
from inferbench_tasks.stages.asked import ask
from inferbench_tasks.submission.schema import LoadSpec
from tests.local_system import ROOT, Driver
from tests.page_of_commands import Page
from tests.serving_cases import dense_case, running_server, server_config

PAGE = ROOT / "docs" / "explanation" / "mlmodelscope.md"
SUBMISSION = "evaluate/ten-objectives.yaml"
SAMPLES = 64
#: Of a table of answers, what has to be the same of a sample whoever asked it.
_ANSWERED = ["sample", "label", "answer", "score", "answer_one_by_one", "answer_source"]


def place(folder: Path) -> None:
    """The page's submission, in the folder of submissions of a system that is to be started."""
    path = folder / SUBMISSION
    path.parent.mkdir(parents=True)
    path.write_bytes((ROOT / "configs" / "submissions" / SUBMISSION).read_bytes())


class Checklist:
    """The page's commands on a system of which ``driver`` knows; what one objective has run others look at."""

    def __init__(self, driver: Driver, folder: Path) -> None:
        self._db = driver.db
        self._folder = folder
        url, password = driver.system.url(), passwords(driver.system.home)["admin"]
        self._bench = InferBench(url, "admin", password, timeout_s=120)
        self._page = Page(PAGE, folder, {"URL": url, "PASSWORD": password})

    def close(self) -> None:
        """The client's connections."""
        self._bench.close()

    def show(self, objective: str) -> None:
        """Run what stands under it; AssertionError where it does not show what the page says."""
        SHOWN[objective](self)

    # -- the ten ------------------------------------------------------------------------------------

    def reproducible(self) -> None:
        """Run again by its lock: figures agree, the digest of all answers and the lock are the first run's."""
        first = self._ways["YAML"]
        again = self._replayed
        assert again["agrees"] and again["verdict"] == "valid", again
        pairs = self._page.json("Reproducible", 1, RUN=first, OTHER=again["now"])
        assert pairs["bit_equal"] is True and pairs["samples"] == SAMPLES and pairs["differ"] == 0
        assert self._digest(first) == self._digest(again["now"])
        # As a whole: of a checkout with uncommitted changes `replay` can't tell whether they are the same.
        locks = [self._result(run).extensions["lock"] for run in (first, again["now"])]
        assert locks[0] == locks[1]

    def consistent(self) -> None:
        """By a file that is run here, REST, the form's request and Python: one lock, and bit-equal answers."""
        runs = self._ways
        assert set(runs) == {"YAML", "REST", "form", "Python"} and len(set(runs.values())) == 4
        locks = {way: self._result(run).extensions["lock"] for way, run in runs.items()}
        assert all(lock == locks["YAML"] for lock in locks.values()), locks
        assert locks["YAML"]["manifests"], "the lock tells of no manifest"
        assert len({self._digest(run) for run in runs.values()}) == 1

    def agnostic(self) -> None:
        """The same model in two runtimes: no sample is named otherwise, and the answers are the source's."""
        onnxruntime, openvino = self._stacks
        pairs = self._page.json("Agnostic of frameworks and hardware", 1, RUN=onnxruntime, OTHER=openvino)
        assert pairs["samples"] == SAMPLES and pairs["differ"] == 0
        results = [self._result(run) for run in self._stacks]
        assert [result.backend.kind for result in results] == ["onnxruntime", "openvino"]
        for result in results:
            assert result.extensions["evaluation"]["from_source"]["beyond_tolerance"] == 0

    def scalable(self) -> None:
        """Two parts of the evaluation are the whole: the same samples, answers, measures and intervals."""
        document = self._page.json("Scalable", 1, RUN=self._parts[0])
        assert (
            document["samples"] == SAMPLES and document["valid"] and set(document["runs"]) == {*self._parts}
        )
        whole = self._result(self._ways["YAML"])
        measures = whole.extensions["evaluation"]["under_load"]["measures"]
        assert "top1_ratio" in document["measures"]
        for name, merged in document["measures"].items():
            assert (merged["value"], merged["ci95"]) == (measures[name]["value"], measures[name]["ci95"]), (
                name
            )
        tables = [
            answers_of(self._db, self._result(run)).select(_ANSWERED).to_pylist() for run in self._parts
        ]
        assert [len(rows) for rows in tables] == [SAMPLES // 2] * 2
        together = sorted((row for rows in tables for row in rows), key=lambda row: row["sample"])
        assert together == answers_of(self._db, whole).select(_ANSWERED).sort_by("sample").to_pylist()

    def versioned(self) -> None:
        """What a constraint leads to stands in the lock before the run and after it; a version never changes."""
        manifest = self._page.json("Versioned artifacts", 0)
        (job,) = self._page.json("Versioned artifacts", 1)
        records = {(each["kind"], each["name"]): each for each in job["lock"]["manifests"]}
        record = records["model", "digits"]
        assert (record["version"], record["digest"]) == (manifest["version"], manifest["digest"])
        ran = self._result(self._ways["YAML"]).extensions["lock"]
        found = compare(ran, job["lock"], before=True)
        assert [row for row in found if row["field"] != "inferbench.git_dirty"] == []
        other = {name: value for name, value in manifest.items() if name not in ("digest", "origin")}
        (self._folder / "other.yaml").write_text(yaml.safe_dump(other | {"description": "Another one."}))
        refused = self._page.command("manifests add other.yaml")
        assert refused.exit_code != 0 and "a version never changes" in str(refused.exception)

    def efficient(self) -> None:
        """The plan is what was run, and what was made by an earlier run is not made again."""
        planned = self._page.json("An efficient workflow", 0)
        stages = [node["stage"] for node in planned["nodes"]]
        result = self._page.json("An efficient workflow", 1, RUN=self._replayed["now"])
        assert result["verdict"] == "valid"
        ran = {stage.stage: stage.output or {} for stage in self._db.get_run(self._replayed["now"]).stages}
        assert stages == [*ran, "analyze"]
        assert ran["generate"]["cached"] and ran["convert"]["cached"]

    def scenarios(self) -> None:
        """Four loads by name and version, a job each; in each of them every sample is asked once."""
        listed = {f"{row['name']}@{row['version']}" for row in self._page.json("Scenarios", 0)}
        planned = self._page.json("Scenarios", 1)
        assert len(planned["jobs"]) == len({json.dumps(job["point"]) for job in planned["jobs"]}) == 4
        (text,) = self._page.blocks("Scenarios", "yaml")
        names = [name.partition("@")[0] for name in yaml.safe_load(text)["sweep"]["load.scenario"]]
        assert {f"{name}@1.0.0" for name in names} <= listed
        folder = self._folder / "scenarios"
        folder.mkdir(exist_ok=True)
        case = dense_case(folder)
        with running_server(server_config(case, folder), folder) as ports:
            endpoint = Endpoint(protocol="http", host="127.0.0.1", port=ports["http"], model_name="dense")
            for name in names:
                load = self._bench.manifest(f"scenario:{name}@^1")["load"]
                spec = LoadSpec.model_validate({**load, "duration_s": 2.0, "warmup_s": 0.0})
                asked = ask(
                    spec, case.samples, case.reference, endpoint, folder=folder / name, base_dir=folder
                )
                assert asked.answered.all() and not asked.statuses, name
                for output, rows in case.reference.items():
                    np.testing.assert_allclose(asked.outputs[output], rows, rtol=1e-4, atol=1e-5)

    def analysed(self) -> None:
        """A report of both stacks, XSP's fifteen with a sentence or what is missing, tables and figures as files."""
        report = self._page.json("Analysis and reports", 0, RUN=self._stacks[0])
        text = (self._folder / "report.html").read_text(encoding="utf-8")
        assert set(report["verdicts"]) == {*self._stacks} and all(run in text for run in self._stacks)
        analyses = self._page.json("Analysis and reports", 1, RUN=self._stacks[0])["analyses"]
        assert [each["number"] for each in analyses] == [*range(1, 16)]
        assert all(bool(each["sentence"]) != bool(each["missing"]) for each in analyses)
        assert {each["number"] for each in analyses if each["sentence"]} >= {2, 3, 5, 6}
        self._page.json("Analysis and reports", 2)
        assert "Across the stack" in (self._folder / "across" / "stack.html").read_text(encoding="utf-8")
        assert list((self._folder / "across").glob("*layers.csv"))

    def inspected(self) -> None:
        """Each traced request is one trace from the client to the layers, each span in one that is there; exported they
        lie in the stage that asked them, and that in the invocation."""
        run = self._stacks[0]
        assert {row["layer"] for row in self._page.json("Inspection", 0, RUN=run)}
        spans = list(self._bench.spans(run))
        traces = {span["trace_id"] for span in spans}
        assert len(traces) == 4
        for trace in traces:
            own = {span["span"]: span for span in spans if span["trace_id"] == trace}
            assert {span["level"] for span in own.values()} == {"application", "model", "framework", "layer"}
            assert sum(span["parent"] < 0 for span in own.values()) == 1
            assert all(span["parent"] in own for span in own.values() if span["parent"] >= 0)
        self._page.ran("Inspection", 1, RUN=run)
        events = json.loads((self._folder / "trace.json").read_text())["traceEvents"]
        told = [event for event in events if event["ph"] in ("X", "b", "B")]
        around = [event for event in told if event["args"]["trace_id"] not in traces]
        names = [event["name"] for event in around]
        assert len(told) == len(spans) + len(around) and names[0] == "invocation" and "collect" in names
        stage = next(event for event in around if event["name"] == "trace")
        off_us = 1_000 * stage["args"]["clock_error_ms"]
        assert off_us < 1_000_000, "of both clocks of one host"
        first_us, last_us = stage["ts"] - off_us, stage["ts"] + stage["dur"] + off_us
        assert all(
            first_us <= event["ts"] and event["ts"] + event["dur"] <= last_us
            for event in told
            if event["args"]["trace_id"] in traces
        )

    def interfaces(self) -> None:
        """Command line, REST, page and Python tell the same of one run."""
        run = self._ways["form"]
        by_command = self._page.json("Several user interfaces", 0, RUN=run)
        rest, _, page = self._page.bash("Several user interfaces", RUN=run).partition("\n")
        by_rest, by_python = json.loads(rest), self._page.python("Several user interfaces", RUN=run)["told"]
        assert by_rest == by_python
        assert by_command["samples"] == by_rest["samples"] and by_command["count"] == by_rest["count"]
        top1 = by_command["evaluation"]["measures"]["top1_ratio"]
        assert top1 == by_rest["evaluation"]["measures"]["top1_ratio"]
        (row,) = (row for row in page.split("<tr>") if f'value="{run}"' in row)
        ends = "–".join(map(number, top1["ci95"]))
        assert f"{number(top1['value'])} ({ends})" in row

    # -- what they look at --------------------------------------------------------------------------

    @cached_property
    def _ways(self) -> dict[str, str]:
        """Way of asking -> the run that came of it; all at once, for nothing of it is timed."""
        rest, form = self._page.bash("Consistent").splitlines()
        started = {"REST": json.loads(rest)["run"], "form": json.loads(form)["dag_run_id"]}
        started["Python"] = self._page.python("Consistent")["started"]["run"]
        (here,) = self._page.json("Consistent", 0)
        assert here["verdict"] == "valid", here
        runs = {way: self._only(run) for way, run in started.items()}
        return {"YAML": here["run_id"], **runs}

    @cached_property
    def _replayed(self) -> dict[str, Any]:
        told: dict[str, Any] = self._page.json("Reproducible", 0, RUN=self._ways["YAML"])
        return told

    @cached_property
    def _stacks(self) -> list[str]:
        rows = self._page.json("Agnostic of frameworks and hardware", 0)
        assert [row["verdict"] for row in rows] == ["valid"] * 2, rows
        return [row["run_id"] for row in rows]

    @cached_property
    def _parts(self) -> list[str]:
        return self._runs(self._page.json("Scalable", 0)["run"])

    def _runs(self, submitted: str) -> list[str]:
        """The runs of what was submitted, by their jobs, once all have ended well."""
        ended = self._bench.wait(submitted, timeout_s=300, poll_s=1)
        assert ended["state"] == "success" and set(ended["verdicts"].values()) == {"valid"}, ended
        return sorted(ended["verdicts"])

    def _only(self, submitted: str) -> str:
        (run,) = self._runs(submitted)
        return run

    def _result(self, run: str) -> ResultDocument:
        return self._db.get_result(run)

    def _digest(self, run: str) -> str:
        digest = self._result(run).extensions["evaluation"]["one_by_one"]["answers_digest"]
        assert isinstance(digest, str) and len(digest) == 64
        return digest


#: What `make test` leaves out: each is shown in parts, answers of two runtimes by the contract of backends; pairs of
#: evaluations, and parts of one, by ``test_evaluations_stored`` and ``tests/unit/analysis/evaluations``; each sample
#: once, under every scenario, by ``test_evaluated_answers``; analyses and spans by ``test_traces_stored`` and
#: ``test_traced_requests``. Here they are four more jobs and a server.
LONG = (
    "Agnostic of frameworks and hardware",
    "Scalable",
    "Scenarios",
    "Analysis and reports",
    "Inspection",
)
#: Objective, as the page's heading has it -> what shows it.
SHOWN: dict[str, Callable[[Checklist], None]] = {
    "Reproducible": Checklist.reproducible,
    "Consistent": Checklist.consistent,
    "Agnostic of frameworks and hardware": Checklist.agnostic,
    "Scalable": Checklist.scalable,
    "Versioned artifacts": Checklist.versioned,
    "An efficient workflow": Checklist.efficient,
    "Scenarios": Checklist.scenarios,
    "Analysis and reports": Checklist.analysed,
    "Inspection": Checklist.inspected,
    "Several user interfaces": Checklist.interfaces,
}
