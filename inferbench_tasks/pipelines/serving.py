"""``kind: serving``: a model is made, converted, served, loaded and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.output import OutputFormat
from inferbench_tasks.pipelines.base import PARAMETERS, Parameter, Pipeline
from inferbench_tasks.pipelines.serving_files import file_findings
from inferbench_tasks.pipelines.serving_nights import watched
from inferbench_tasks.pipelines.serving_seconds import expected_s, load_s, starts_s
from inferbench_tasks.pipelines.watched import Watched
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.check import check, unknown_names
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.rate import at_given_rates
from inferbench_tasks.submission.schema import JobSpec, Submission
from inferbench_tasks.submission.sweep import expand

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.sections import Section
    from inferbench_tasks.contracts.verdict import Verdict
    from inferbench_tasks.perfdb.documents import ResultDocument, RunDocument
    from inferbench_tasks.perfdb.store import PerfDB

#: What a submission's DAG says of blocks beside the load.
_BLOCKS = {"evaluate": "whether the answers are right", "trace": "where the time of a request goes"}


class ServingPipeline(Pipeline[JobSpec]):
    """The benchmark of a serving system."""

    kind = "serving"
    job = JobSpec
    stages = (
        "inferbench_tasks.stages.generate",
        "inferbench_tasks.stages.convert",
        "inferbench_tasks.stages.runtime",
        "inferbench_tasks.stages.serve",
        "inferbench_tasks.stages.spread.replica",
        "inferbench_tasks.stages.spread.balance",
        "inferbench_tasks.stages.senders.standby",
        "inferbench_tasks.stages.load",
        "inferbench_tasks.stages.evaluate",
        "inferbench_tasks.stages.trace",
        "inferbench_tasks.stages.collect",
        "inferbench_tasks.stages.release",
        "inferbench_tasks.stages.analyze",
    )
    patience = "load.wait_for_quiet_s"
    parameters = {
        **PARAMETERS,
        "duration_s": Parameter(
            "load.duration_s",
            {"type": "number", "exclusiveMinimum": 0, "description": "Measured load per job, seconds."},
        ),
        "warmup_s": Parameter(
            "load.warmup_s",
            {"type": "number", "minimum": 0, "description": "Load before it, reported apart, seconds."},
        ),
        "seed": Parameter(
            "load.seed",
            {"type": "integer", "minimum": 0, "description": "Of the schedule and the order of samples."},
        ),
    }
    submission = Submission

    def unknown_names(self, data: Mapping[str, Any], abilities: Abilities) -> Sequence[Finding]:
        """Of backends, formats, networks, models, data sets and processors."""
        return unknown_names(data, abilities)

    def findings(self, spec: JobSpec, abilities: Abilities) -> Sequence[Finding]:
        """The problems that ``submission.check`` sees in a job."""
        return check(spec, abilities)

    def file_findings(self, spec: JobSpec, base_dir: Path, abilities: Abilities) -> Sequence[Finding]:
        """Conversations that are none, splits that are not there, language models that are none or too small."""
        backend = abilities.backend(spec.serve.backend)
        return tuple(file_findings(spec, base_dir, backend.slot_tokens))

    def warnings(self, spec: JobSpec) -> dict[str, str]:
        """An objective on a percentile, or a share of failures, of too few requests."""
        from inferbench_tasks.loadgen.early_stopping import least_to_keep
        from inferbench_tasks.loadgen.statistics import FLOORS, NAMES

        floors = {f"{NAMES[quantile]}_ms": count for quantile, count in FLOORS.items()}
        bounds = {
            f"{name}_ms": value
            for name, value in (spec.slo.percentile_bounds_ms() if spec.slo else {}).items()
        }
        if failures := spec.slo.bound("error_ratio") if spec.slo else None:
            bounds["error_ratio"], floors["error_ratio"] = failures, least_to_keep(failures)
        if (load := spec.load) is None:
            return {}
        messages = {}
        rate_rps = load.arrivals.mean_rate_rps(load.duration_s)
        expected = None if rate_rps is None else rate_rps * load.duration_s
        if load.max_requests is not None:
            expected = min(expected or load.max_requests, load.max_requests)
        for name, bound in bounds.items():
            if expected is not None and expected < floors[name]:
                messages[name] = (
                    f"about {expected:,.0f} requests are too few to judge slo.{name} "
                    f"({bound:g}), which needs {floors[name]:,}; raise load.duration_s or the rate"
                )
        return messages

    def expected_s(self, spec: JobSpec) -> float:
        """The load, and what is around it."""
        return expected_s(spec)

    def starts_s(self, spec: JobSpec) -> float:
        """Of all its servers, and of what stands before several."""
        return starts_s(spec)

    def result(self) -> type[ResultDocument]:
        """Figures of the load, with a certificate."""
        from inferbench_tasks.perfdb.documents import ResultDocument

        return ResultDocument

    def without_figures(self, run: RunDocument, verdict: Verdict) -> ResultDocument:
        """With the model, the backend and the load as they were asked for."""
        from inferbench_tasks.analysis.report.finalise import without_figures

        return without_figures(run, verdict)

    def agreement(self, then: ResultDocument, now: ResultDocument) -> list[dict[str, Any]]:
        """By the figures that are marked for it."""
        from inferbench_tasks.analysis.report.replay import agreement

        return agreement(then, now)

    def surroundings(self, result: ResultDocument) -> dict[str, Any]:
        """The backend, the device and the model."""
        from inferbench_tasks.analysis.report.replay import parts_of_serving

        return parts_of_serving(result)

    def sections(self, db: PerfDB, run_ids: Sequence[str]) -> Sequence[Section]:
        """Latencies, load, what each layer did, as the report has them, with the roof that is kept here."""
        from inferbench_tasks.analysis.ceilings import kept_of
        from inferbench_tasks.analysis.report.runs import load_runs
        from inferbench_tasks.analysis.report.sections import sections

        views = load_runs(db, run_ids)
        return sections(views, kept_of([view.result for view in views if view.result], settings.data_dir()))

    def show(self, results: Sequence[ResultDocument], report: Path | None, output: OutputFormat) -> None:
        """A table, what is wrong with each run, and what to use."""
        from inferbench_tasks.analysis.report.terminal import show_results

        show_results(results, report, output)

    def end_left_behind(self, spec: JobSpec, data_dir: Path, run_id: str) -> bool:
        """The servers of its share's neighbours too."""
        from inferbench_tasks.stages.neighbours import end_all

        neighbours = end_all(spec, settings.servers_dir(data_dir), run_id)
        return super().end_left_behind(spec, data_dir, run_id) or neighbours

    def row(self, spec: JobSpec) -> dict[str, Any]:
        """What is served, and how it is loaded."""
        return {
            "backend": spec.serve.backend,
            "arrivals": spec.load and spec.load.arrivals.kind,
            "load_s": load_s(spec),
        }

    def facts(self, submission: Submission) -> dict[str, str]:
        """The model, the server, the traffic and the objective."""
        spec = submission
        facts = {
            "model": f"`{spec.model.kind}`",
            "backend": f"`{spec.serve.backend}` on `{_on(spec)}`",
            **({"arrivals": f"`{spec.load.arrivals.kind}`, {spec.load.duration_s:g} s"} if spec.load else {}),
            **{name: words for name, words in _BLOCKS.items() if getattr(spec, name) is not None},
        }
        if spec.slo:
            bounds = spec.slo.bounds().items()
            sides = {name: ">=" if FIGURES[name].higher else "<=" for name, _ in bounds}
            facts["SLO"] = ", ".join(f"{name} {sides[name]} {bound:g}" for name, bound in bounds)
        return facts

    def watched(self) -> Watched:
        """Latencies, throughput, cold start; explained by the stages of a request."""
        return watched()

    def for_nights(self, submission: Submission, what: str) -> Submission:
        """A load that is the same each time, from the server's own host: no search for the highest rate."""
        specs = [job.spec for job in expand(submission)]
        if any(spec.serve.devices > 1 for spec in specs):
            raise InputError(f"{what} runs on one device; use devices: 1", field="serve.devices")
        if any(spec.stages_elsewhere() for spec in specs):
            raise InputError(f"{what} runs on one host; use from: server_host", field="load.from")
        return at_given_rates(submission, what)

    def tags(self, submission: Submission) -> tuple[str, ...]:
        """The tags of the DAG: the serving backend."""
        return (submission.serve.backend,)


def _on(spec: JobSpec) -> str:
    return (
        str(spec.serve.device) if spec.serve.devices == 1 else f"{spec.serve.devices} x {spec.serve.device}"
    )


SERVING = ServingPipeline()
