"""From what client and server told of traced requests to spans on one clock, each within its parent."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.tracing.request_parts import FIRST_BYTE, LAST_BYTE, client_parts, server_parts
from inferbench_tasks.tracing.spans import (
    CLOCK_ERROR,
    HARDWARE,
    INSTRUMENTED,
    LINKS,
    STATE,
    AnyLevel,
    Level,
    Span,
)

#: Beyond its parent by more than this a span is a defect of the trace: the runtime's profile counts microseconds.
TOLERANCE_NS = 50_000


@dataclass(frozen=True)
class Asked:
    """A request as its client saw it, CLOCK_MONOTONIC ns. ``span_id``: in its ``traceparent``.

    ``about``: attributes of its span besides; of a share of a load its number there, ``one_in`` and ``tracestate``.
    ``before``, ``after``, ``answered_ns``: what its client's own processors did, see ``request_parts.client_parts``.
    ``clock_error_ns``: of a client on another host, whose moments were put on this one's clock (``two_hosts``): by how
    much they may be wrong there, all alike.
    """

    trace_id: str
    span_id: str
    sample: int
    intended_ns: int
    sent_ns: int
    first_byte_ns: int
    done_ns: int
    about: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    answered_ns: int | None = None
    clock_error_ns: int = 0

    @property
    def latency_ns(self) -> int:
        """From its send to its end, with what its client's processors did before the send."""
        return self.done_ns - (self.sent_ns if self.before is None else self.before["started_ns"])


@dataclass
class Assembled:
    """``spans``: trace by trace, parents before children.

    ``defects``: spans beyond their parents; of a GPU's work what begins before the call that asked for it, or is not
    over with its run. ``unanswered``: requests of which the server told nothing. ``lost``: runs and requests that its
    instruments told nothing of, for whatever reason. ``ignored``: requests whose ``traceparent``
    was none, ``ignored_states`` whose ``tracestate`` was. ``clock``: how both clocks were set against each other, ns.
    Of clients on another host ``hosts_error_ns``: the worst of their requests' ``clock_error_ns``.
    Of a GPU, whose moments lie on that clock, ``gpu_error_ns``: they may be off by so much. ``samplings``: of each
    source that samples what came of it, ``outside``: of each what it met in no layer, see ``missing``. ``why_lost``: of
    what kind the lost runs are, where that is known.
    """

    spans: list[Span] = field(default_factory=list)
    defects: int = 0
    unanswered: int = 0
    lost: int = 0
    ignored: int = 0
    ignored_states: int = 0
    clock: dict[str, int] = field(default_factory=dict)
    samplings: list[dict[str, int]] = field(default_factory=list)
    outside: list[dict[str, int]] = field(default_factory=list)
    why_lost: list[str] = field(default_factory=list)


def assemble(
    asked: Sequence[Asked],
    told: Mapping[str, Any] | None,
    epoch_offset_ns: int,
    number: int = 0,
    level: Level | None = None,
) -> Assembled:
    """The spans of these requests; ``told``: the server's file (``servers.tracing``), None where there is none; of a
    server that sends spans of its own these (``stages.sent_spans``).

    ``number``: of their round; ``level``: the deepest whose instruments were on, where a trace has several of these.
    ``epoch_offset_ns``: from CLOCK_MONOTONIC to Unix time where the server told none.
    Client and server are on one host and share CLOCK_MONOTONIC, or what the client told was put there (``two_hosts``);
    a runtime's profile is in Unix time, so the offset's error and drift are the trace's.
    """
    made = Assembled()
    silent = told is None
    told = told or {"requests": [], "runs": [], "layers": [], "lost": 0, "ignored": 0, "epoch_offsets": []}
    offsets = told["epoch_offsets"]
    if offsets:
        epoch_offset_ns = offsets[0]["offset_ns"]
        made.clock = {
            "error_ns": max(offset["error_ns"] for offset in offsets),
            "drift_ns": offsets[-1]["offset_ns"] - epoch_offset_ns,
        }
    if errors_ns := told.get("gpu_clock_errors_ns"):
        made.clock["gpu_error_ns"] = max(errors_ns)
    if worst_ns := max((request.clock_error_ns for request in asked), default=0):
        made.clock["hosts_error_ns"] = worst_ns
    made.lost = told["lost"]
    made.why_lost = list(told.get("why_lost", ()))
    made.ignored = told["ignored"]
    made.ignored_states = told.get("ignored_states", 0)
    made.samplings = list(told.get("sampling", ()))
    made.outside = list(told.get("outside", ()))
    rows = {(row["trace_id"], row["parent_id"]): row for row in told["requests"]}
    runs = sorted(told["runs"], key=lambda run: run["start_ns"])
    layers = sorted(told["layers"], key=lambda layer: (layer["start_ns"], -layer["end_ns"]))
    sent: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for span in told.get("spans", ()):
        sent[span["trace_id"]].append(span)
    batches: dict[int, list[Asked]] = defaultdict(list)
    for request in asked:
        if batch := rows.get((request.trace_id, request.span_id), {}).get("batch"):
            batches[batch["number"]].append(request)
    for request in asked:
        row = rows.get((request.trace_id, request.span_id))
        theirs = sent[request.trace_id]
        together = _together(request, row, batches)
        _Trace(made, request, epoch_offset_ns, number, level).add(row, runs, layers, theirs, together)
        within = any(span["parent_id"] == request.span_id for span in theirs)
        made.unanswered += not (silent or row or within)
    return made


def _together(
    request: Asked, row: Mapping[str, Any] | None, batches: Mapping[int, Sequence[Asked]]
) -> dict[str, Any]:
    """What the inference of a request says of its batch: empty of one that was executed by itself."""
    batch = row.get("batch") if row is not None else None
    if not batch:
        return {}
    others = [other for other in batches[batch["number"]] if other is not request]
    links = [{"trace_id": other.trace_id, "span_id": other.span_id} for other in others]
    about = {"batch": batch["number"], "batch_requests": batch["requests"], "batch_rows": batch["rows"]}
    return about | ({LINKS: links} if links else {})


def worst_clock(made: Sequence[Assembled]) -> dict[str, int]:
    """Of all servers that told of their clocks the largest errors and drift; empty where none did."""
    names = dict.fromkeys(name for each in made for name in each.clock)
    return {name: max((each.clock[name] for each in made if name in each.clock), key=abs) for name in names}


def counted(made: Sequence[Assembled]) -> dict[str, int]:
    """What is wrong with all of them together: numbers of spans (``defects``) and of requests; see ``Assembled``."""
    names = ("defects", "unanswered", "lost", "ignored")
    return {name: sum(getattr(each, name) for each in made) for name in names}


class _Trace:
    """One request's spans while they are put together."""

    def __init__(
        self, made: Assembled, request: Asked, epoch_offset_ns: int, number: int, level: Level | None
    ) -> None:
        self._made = made
        self._request = request
        self._offset_ns = epoch_offset_ns
        self._round = number
        self._level = level
        self._own: list[Span] = []
        #: The run whose layers are put together.
        self._run = -1

    def add(
        self,
        row: Mapping[str, Any] | None,
        runs: Sequence[Mapping[str, Any]],
        layers: Sequence[Mapping[str, Any]],
        theirs: Sequence[Mapping[str, Any]] = (),
        together: dict[str, Any] | None = None,
    ) -> None:
        """``together``: what the span ``inference`` says of the batch that it is of."""
        request = self._request
        attributes = {
            "sample": request.sample,
            "round": self._round,
            **({INSTRUMENTED: self._level} if self._level else {}),
            **({CLOCK_ERROR: request.clock_error_ns} if request.clock_error_ns else {}),
            **request.about,
        }
        root = self._span(-1, "application", "request", request.intended_ns, request.done_ns, attributes)
        asking = self._client(root)
        if row is None:
            self._theirs(asking, theirs)
            return
        # As the server got it: what stands between may have added entries.
        told = {"rows": row["rows"]} | ({STATE: row[STATE]} if row.get(STATE) else {}) | _known(row["used"])
        server = self._span(asking, "model", "server", row["started_ns"], row["encoded_ns"], told)
        inference = server
        for name, start_ns, end_ns, about in server_parts(row):
            own = together if name == "inference" else about
            number = self._span(server, "model", name, start_ns, end_ns, own)
            inference = number if name == "inference" else inference
        for run in _within(runs, row["joined_ns"], row["inferred_ns"]):
            used = _known(run["used"])
            number = self._span(inference, "framework", run["name"], run["start_ns"], run["end_ns"], used)
            self._layers(number, run, layers)

    def _client(self, root: int) -> int:
        """The parts of the request at its client; the number of that in which its server is asked, whose id is the one
        in the ``traceparent``."""
        request = self._request
        parts = client_parts(
            request.intended_ns,
            request.sent_ns,
            request.first_byte_ns,
            request.done_ns,
            request.before,
            request.after,
            request.answered_ns,
        )
        asks = next(at for at, part in enumerate(parts) if part[0] in (FIRST_BYTE, LAST_BYTE))
        numbers = [
            self._span(
                root,
                "application",
                name,
                start_ns,
                end_ns,
                {"span_id": request.span_id} if at == asks else about,
            )
            for at, (name, start_ns, end_ns, about) in enumerate(parts)
        ]
        return numbers[asks]

    def _theirs(self, asking: int, spans: Sequence[Mapping[str, Any]]) -> None:
        """What a server of another maker sent of this request: each of its spans in the one that it names, by time.

        One whose parents don't lead to the request is none of it.
        """
        inside: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for span in sorted(spans, key=lambda each: each["start_ns"], reverse=True):
            inside[span["parent_id"]].append(span)
        left = [(asking, span) for span in inside.pop(self._request.span_id, ())]
        while left:
            parent, span = left.pop()
            number = self._add(
                parent, "model", span["name"], span["start_ns"], span["end_ns"], span["attributes"]
            )
            left += [(number, each) for each in inside.pop(span["span_id"], ())]

    def _layers(self, run_number: int, run: Mapping[str, Any], layers: Sequence[Mapping[str, Any]]) -> None:
        """The layers whose middle is within a run, each in the smallest one around it (bodies of If and Loop)."""
        self._run = run_number
        start_ns, end_ns = (run[name] + self._offset_ns for name in ("start_ns", "end_ns"))
        around: list[tuple[int, int]] = []
        for layer in _within(layers, start_ns - TOLERANCE_NS, end_ns):
            # Its middle tells whose it is: the run before may have ended within what the clocks can tell.
            if not start_ns <= (layer["start_ns"] + layer["end_ns"]) / 2 < end_ns:
                continue
            # One of 0 us at another's end is its neighbour.
            while around and (around[-1][1] < layer["end_ns"] or around[-1][1] <= layer["start_ns"]):
                around.pop()
            parent = around[-1][0] if around else run_number
            known = _known(layer["attributes"])
            number = self._add(
                parent, "layer", layer["name"], layer["start_ns"], layer["end_ns"], known, layer["type"]
            )
            around.append((number, layer["end_ns"]))
            self._primitives(number, layer.get("inside", ()))

    def _primitives(self, parent: int, inside: Sequence[Mapping[str, Any]]) -> None:
        """What a layer ran, each within what ran it, or asked a GPU for it."""
        for each in inside:
            known = {name: value for name, value in each["attributes"].items() if value is not None}
            level = each.get("level", "library")
            number = self._add(
                parent, level, each["name"], each["start_ns"], each["end_ns"], known, each["type"]
            )
            self._primitives(number, each["inside"])

    def _span(
        self,
        parent: int,
        level: Level,
        name: str,
        start_ns: int,
        end_ns: int,
        attributes: dict[str, Any] | None = None,
    ) -> int:
        """A span between two moments of CLOCK_MONOTONIC; its number."""
        offset_ns = self._offset_ns
        return self._add(parent, level, name, start_ns + offset_ns, end_ns + offset_ns, attributes or {})

    def _add(
        self,
        parent: int,
        level: AnyLevel,
        name: str,
        start_ns: int,
        end_ns: int,
        attributes: dict[str, Any],
        type_: str = "",
    ) -> int:
        number = len(self._own)
        span = Span(
            self._request.trace_id,
            number,
            parent,
            level,
            name,
            start_ns,
            end_ns - start_ns,
            type_,
            attributes,
        )
        if parent >= 0:
            around = self._own[parent]
            # What a GPU does begins after the call that asked for it, and goes on when that has returned: only the run
            # waits for it.
            last = self._own[self._run] if level == HARDWARE else around
            # Of two spans of one host it is no matter how its clock lies to another one.
            of_both_hosts = around.level == "application" != level
            slack_ns = TOLERANCE_NS + (self._request.clock_error_ns if of_both_hosts else 0)
            self._made.defects += (
                span.start_ns < around.start_ns - slack_ns or span.end_ns > last.end_ns + slack_ns
            )
        self._own.append(span)
        self._made.spans.append(span)
        return number


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Without what nobody told."""
    return {name: value for name, value in attributes.items() if value is not None}


def _within(rows: Sequence[Mapping[str, Any]], start_ns: int, end_ns: int) -> Sequence[Mapping[str, Any]]:
    """Those that began in that time; ``rows`` are ascending by ``start_ns``."""
    low = bisect_left(rows, start_ns, key=lambda row: row["start_ns"])
    return rows[low : bisect_right(rows, end_ns, key=lambda row: row["start_ns"])]
