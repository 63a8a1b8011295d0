"""How many bytes stored spans take, and that what was stored in more is read all the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.mlmodelscope.span_bytes import CASES, MOST_BYTES, Stored, judged, stored
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.submission.reader import read_submission_data
from inferbench_tasks.tracing.counters import KEY, Track, packed, tracks_in
from inferbench_tasks.tracing.request_parts import FIRST_BYTE, client_parts
from inferbench_tasks.tracing.spans import SCHEMA, Span, spans_of, table_of, write

_PARTS = ("read", "decode", "queue", "inference", "resume", "encode")
_LAYERS = ("MatMul", "Add", "Relu", "Softmax")
#: What a run says that it used, and below which number that lies.
_USED = {
    "cpu_ns": 1_000_000, "wait_for_core_ns": 1_000_000, "switches_voluntary": 2, "switches_involuntary": 2,
    "faults_minor": 2, "faults_major": 1,
}  # fmt: skip


def small_requests(count: int = 90) -> Iterator[Span]:
    """Of a model of four layers: sixteen spans each, with numbers that differ from request to request."""
    rng, at_ns = random.Random(1), 1_790_000_000_000_000_000

    def used(prefix: str) -> dict[str, int]:
        return {f"{prefix}{name}": rng.randrange(most) for name, most in _USED.items()}

    for at in range(count):
        trace, at_ns = f"{rng.getrandbits(128):032x}", at_ns + rng.randrange(1_000_000, 3_000_000)
        sent_ns = at_ns + rng.randrange(90_000)
        first_byte_ns = sent_ns + 600_000 + rng.randrange(300_000)
        done_ns = first_byte_ns + rng.randrange(90_000)
        about = {"sample": at % 30, "round": at // 30}
        yield Span(trace, 0, -1, "application", "request", at_ns, done_ns - at_ns, "", about)
        for number, (name, begin_ns, end_ns, _) in enumerate(
            client_parts(at_ns, sent_ns, first_byte_ns, done_ns), 1
        ):
            asking = {"span_id": f"{rng.getrandbits(64):016x}"} if name == FIRST_BYTE else {}
            yield Span(trace, number, 0, "application", name, begin_ns, end_ns - begin_ns, "", asking)
        server_ns = sent_ns + rng.randrange(100_000)
        of_process = {"rows": 1, **used("process_")}
        yield Span(trace, 4, 2, "model", "server", server_ns, rng.randrange(600_000), "", of_process)
        begin_ns = server_ns
        for number, name in enumerate(_PARTS, 5):
            length_ns = rng.randrange(90_000)
            yield Span(trace, number, 4, "model", name, begin_ns, length_ns)
            begin_ns += length_ns
        yield Span(
            trace, 11, 8, "framework", "session.run", begin_ns, 90_000, "", used("") | used("process_")
        )
        for number, name in enumerate(_LAYERS, 12):
            shape = {"output_shapes": [[1, 10 * number]], "output_bytes": 40 * number}
            start_ns, length_ns = begin_ns + 1000 * rng.randrange(80), 1000 * rng.randrange(30)
            yield Span(trace, number, 11, "layer", f"{name}_{number}", start_ns, length_ns, name, shape)


TRACKS = [Track("server's CPU", "cores", [at * 10**8 for at in range(40)], [at / 7 for at in range(40)])]


def test_a_span_of_small_requests_takes_at_most_20_bytes(tmp_path: Path) -> None:
    """With what monitors saw and all that the file has besides; every span is read as it was written."""
    spans = list(small_requests())
    write(spans, tmp_path / "spans", packed(TRACKS))
    found = stored("made", (tmp_path / "spans").read_bytes())
    assert found.spans == len(spans) and found.of_span <= MOST_BYTES, found.shown()
    assert list(spans_of(pq.ParquetFile(tmp_path / "spans").read())) == spans
    assert sum(found.parts.values()) == found.size_bytes == (tmp_path / "spans").stat().st_size
    assert all(size > 0 for size in found.parts.values())


def test_what_monitors_saw_is_there_once(tmp_path: Path) -> None:
    """The schema that Arrow writes beside the columns has no second copy of it."""
    kept = packed(TRACKS)
    write([], tmp_path / "with", kept)
    write([], tmp_path / "without")
    more = (tmp_path / "with").stat().st_size - (tmp_path / "without").stat().st_size
    assert len(kept[KEY]) > 200 and more < len(kept[KEY]) + 100


def test_files_of_before_are_read(tmp_path: Path) -> None:
    """As they were written: with statistics, and what monitors saw as the schema's."""
    spans = list(small_requests(3))
    names = [field.name for field in SCHEMA if pa.types.is_dictionary(field.type)]
    numbers = [field.name for field in SCHEMA if field.name not in names]
    pq.write_table(
        table_of(spans).replace_schema_metadata(packed(TRACKS)), tmp_path / "before", compression="zstd",
        use_dictionary=names, column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    )  # fmt: skip
    table = pq.ParquetFile(tmp_path / "before").read()
    assert list(spans_of(table)) == spans and tracks_in(table) == TRACKS


def test_one_case_over_the_limit_fails() -> None:
    """At the limit is within it; a case without a trace leaves the others undecided."""
    at_limit, over = Stored("a", 10, 200, {}), Stored("b", 10, 201, {})
    assert judged([at_limit], [])[0] == 0 and at_limit.words().endswith("passed")
    assert judged([at_limit], ["c: why"])[0] == 2 and judged([], [])[0] == 2
    code, words = judged([at_limit, over], ["c: why"])
    assert code == 1 and words == "2 cases, at most 20.1 bytes a span (limit 20): FAILED"


def test_each_case_is_a_submission() -> None:
    """As a user writes it."""
    for name, case in CASES.items():
        read_submission_data(case.submission(name), name, INSTALLED)
