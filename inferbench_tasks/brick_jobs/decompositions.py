"""How models are cut, in PerfDB: ``decompositions`` has one document for each model and granularity, with its bricks in
order, what each of them takes from, and what is known of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from inferbench_tasks.brick_jobs.counting import COUNT
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.facts import BrickFacts
from inferbench_tasks.brick_jobs.known_bricks import put_bricks
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.bricks.views import view_of
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_stored

DECOMPOSITIONS = "decompositions"


def of_precision(precision: str) -> str | dict[str, list[str | None]]:
    """How decompositions of a precision are asked for: those of before it was kept are of fp32."""
    return {"$in": ["fp32", None]} if precision == "fp32" else precision


def of_sources(keys: Iterable[str]) -> dict[str, Any]:
    """How decompositions of models (``CutModel.source``) are asked for, at whatever sizes of free inputs: those of
    before sizes were kept beside are of models without free inputs, if of these at all."""
    wanted = {"$in": list(keys)}
    return {"$or": [{"made_from": wanted}, {"sources.source": wanted}]}


def of_runtime(name: str) -> str | dict[str, list[str | None]]:
    """How decompositions for a runtime are asked for: those of before it was kept are ONNX Runtime's."""
    return {"$in": [DEFAULT, None]} if name == DEFAULT else name


def of_view(name: str) -> str | dict[str, list[str | None]]:
    """How decompositions in a view are asked for: those of before it was kept are the runtime's."""
    return {"$in": ["runtime", None]} if name == "runtime" else name


class Decompositions:
    """Those that a setting has to do with: of its runtime, and of its instruction set or of none."""

    def __init__(self, db: PerfDB, setting: Setting) -> None:
        self.setting, self._db = setting, db
        #: How models are cut is the runtime's: another one has other layers.
        self._of_runtime = {"runtime": of_runtime(setting.runtime_name)}

    def put_cut(
        self,
        whole: str,
        granularity: str,
        parts: Iterable[str],
        needs: Iterable[Iterable[int]],
        facts: Mapping[str, Any],
        work: Sequence[Mapping[str, Any]] = (),
        of: CutModel | None = None,
        at: datetime | None = None,
    ) -> None:
        """Keep how a model is cut, once; ``facts``: its name, digest, batch size and what else is known of it;
        ``work``: of each brick, also where it was not counted before; ``of``: what it was made from; ``at``: when, by
        PerfDB's clock."""
        parts = list(parts)
        where = {"whole": whole, "granularity": granularity, "parts": parts, **self._of_runtime}
        now = at or self._db.now()
        values = {**facts, "needs": [list(one) for one in needs], "created_at": now}
        values["runtime"] = self.setting.runtime_name
        update: dict[str, Any] = {"$setOnInsert": to_stored(values)}
        if facts:
            update["$set"] = {"cut_at": now} | (
                {"work": to_stored(list(work)), "work_count": COUNT} if work else {}
            )
        if of is not None and of.made_from is not None:
            # Models with other weights are cut alike: one document, made from each of them.
            update["$addToSet"] = {"made_from": of.made_from}
            if of.source is not None:
                shapes = [{"input": name, "sizes": list(sizes)} for name, sizes in of.shapes]
                one = {"made_from": of.made_from, "source": of.source, "shapes": shapes}
                update["$addToSet"]["sources"] = one
            # Their inputs need not be alike: of one that leaves a size open the cut has a size.
            update["$set"][f"tensors.{of.made_from}"] = {
                "inputs": [one.model_dump(mode="json") for one in of.inputs],
                "outputs": [one.model_dump(mode="json") for one in of.outputs],
            }
        self._db.retrying(
            lambda: self._db.collection(DECOMPOSITIONS).update_one(where, update, upsert=True),
            "writing a decomposition",
        )

    def put_cuts(self, cuts: Iterable[CutModel], bricks: Iterable[BrickFacts] = ()) -> None:
        """Keep how models are cut, with what is known of them, and what their bricks are (``known_bricks``)."""
        now = self._db.now()
        for cut in cuts:
            facts = {
                "model": cut.name,
                "digest": cut.digest,
                "batch_size": cut.batch_size,
                "task": cut.task,
                "view": cut.view,
                "precision": cut.precision,
                "instruction_set": self.setting.instruction_set if view_of(cut.view).processor else None,
                "layers": cut.layers,
            }
            work = [one.model_dump(mode="json") for one in cut.work]
            self.put_cut(cut.whole, cut.granularity, cut.parts, cut.needs, facts, work, cut, now)
        put_bricks(self._db, bricks, now)

    def cuts_of(self, wholes: Iterable[str], of: Mapping[str, Any], limit: int = 0) -> list[dict[str, Any]]:
        """How these models are cut, by granularity, batch size or what else is known of them; the newest first."""
        where, newest = {"whole": {"$in": list(wholes)}, **self._of_runtime, **of}, [("created_at", -1)]
        return self._db.retrying(
            lambda: list(
                self._db.collection(DECOMPOSITIONS).find(where, {"_id": 0}, sort=newest, limit=limit)
            ),
            "reading decompositions",
        )

    def cuts_at(
        self, granularity: str, view: str, precision: str, of: Mapping[str, Any], fields: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """How models were cut, at all batch sizes, for this setting's instruction set or for none; the newest first.

        ``of``: what else is known of them; ``fields``: these only. Without bricks' work.
        """
        own = self.setting.instruction_set if view_of(view).processor else None
        where: dict[str, Any] = {
            "granularity": granularity,
            "instruction_set": own,
            "batch_size": {"$exists": True},
        }
        where |= {"precision": of_precision(precision), **self._of_runtime, **of}
        wanted = {**dict.fromkeys(fields, 1), "_id": 0} if fields else {"_id": 0, "work": 0}
        newest = [("cut_at", -1), ("created_at", -1)]
        return self._db.retrying(
            lambda: list(self._db.collection(DECOMPOSITIONS).find(where, wanted, sort=newest)),
            "reading decompositions",
        )

    def measured_cuts(
        self, limit: int, view: str = "runtime", precision: str = "fp32"
    ) -> list[dict[str, Any]]:
        """The newest models of a precision that were cut in a view, for this setting's instruction set or for none, and
        whose bricks' work was counted."""
        where = {
            "instruction_set": self.setting.instruction_set if view_of(view).processor else None,
            "view": of_view(view),
            "precision": of_precision(precision),
            "work": {"$exists": True},
            **self._of_runtime,
        }
        fields = {"model": 1, "parts": 1, "work": 1, "work_count": 1, "_id": 0}
        return self._db.retrying(
            lambda: list(
                self._db.collection(DECOMPOSITIONS).find(
                    where, fields, sort=[("created_at", -1)], limit=limit
                )
            ),
            "reading decompositions",
        )

    def _cuts_by_whole(self, wholes: list[str]) -> dict[str, dict[str, Any]]:
        cuts: dict[str, dict[str, Any]] = {}
        if not wholes:
            return cuts
        found = self._db.retrying(
            lambda: list(
                self._db.collection(DECOMPOSITIONS)
                .find({"whole": {"$in": wholes}, **self._of_runtime})
                .sort("created_at", 1)
            ),
            "reading decompositions",
        )
        for cut in found:
            of = cuts.setdefault(cut["whole"], {"parts": {}, "needs": {}})
            of["parts"][cut["granularity"]] = cut["parts"]
            of["needs"][cut["granularity"]] = cut["needs"]
        return cuts
