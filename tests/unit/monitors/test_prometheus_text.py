"""Pages of Prometheus text, read again and again."""

from __future__ import annotations

from collections import defaultdict

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inferbench_tasks.monitors import prometheus_text
from inferbench_tasks.monitors.prometheus_text import TextReader

#: As Triton writes it: counters without ``_total``, one line for each model and version.
TRITON = """\
# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="a",version="1"} 3
nv_inference_request_success{model="b",version="1"} 4
# HELP nv_inference_request_failure Number of failed inference requests, all batch sizes
# TYPE nv_inference_request_failure counter
nv_inference_request_failure{model="a",reason="REJECTED",version="1"} 1
nv_inference_request_failure{model="a",reason="OTHER",version="1"} 0
# HELP nv_inference_first_response_histogram_ms Duration of the first response
# TYPE nv_inference_first_response_histogram_ms histogram
nv_inference_first_response_histogram_ms_count{model="a",version="1"} 7
nv_inference_first_response_histogram_ms_sum{model="a",version="1"} 123.5
nv_inference_first_response_histogram_ms_bucket{model="a",version="1",le="100"} 2
nv_inference_first_response_histogram_ms_bucket{model="a",version="1",le="+Inf"} 7
# HELP nv_cpu_utilization CPU utilization rate [0.0 - 1.0]
# TYPE nv_cpu_utilization gauge
nv_cpu_utilization 0.9375
"""


def test_a_page_of_triton() -> None:
    """Models are summed, reasons told apart, buckets left out; counters are called so."""
    assert TextReader().read(TRITON) == {
        "nv_inference_request_success_total": 7,
        "nv_inference_request_failure[reason=REJECTED]_total": 1,
        "nv_inference_request_failure[reason=OTHER]_total": 0,
        "nv_inference_first_response_histogram_ms_count": 7,
        "nv_inference_first_response_histogram_ms_sum": 123.5,
        "nv_cpu_utilization": 0.9375,
    }


def test_each_page_is_as_if_read_by_the_library() -> None:
    """Values follow from page to page, a series that comes later is counted, one that has gone is not."""
    later = TRITON.replace(" 3\n", " 5\n").replace("0.9375", "0.5")
    later += 'nv_more{model="c"} 1\n# TYPE nv_late_total counter\nnv_late_total{model="c"} 2 1700000000000\n'
    reader = TextReader()
    for page in (TRITON, later, TRITON):
        sums: dict[str, float] = defaultdict(float)
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if not sample.name.endswith("_bucket"):
                    sums[sample.name.removesuffix("_total")] += sample.value
        read: dict[str, float] = defaultdict(float)
        for name, value in reader.read(page).items():
            read[name.partition("[")[0].removesuffix("_total")] += value
        assert read == sums


@pytest.mark.parametrize(
    "line",
    [
        "x", "x ", "x y", "x NaN", "x +Inf", "x{", 'x{a="b"}', 'x{a="b} 1', 'x{a=b} 1', "{} 1", '"x" 1', 'x-y{a="b"} 1',
        "{, == ,", "# TYPE", "# TYPE x", "}", "1 1", "",
    ],
)  # fmt: skip
def test_a_broken_line_hides_no_other(line: str) -> None:
    """What is no series with a finite value is left out, however often it comes."""
    reader = TextReader()
    for _ in range(2):
        assert reader.read(f"before 1\n{line}\nafter 2\n") == {"before": 1, "after": 2}


def test_a_value_that_could_not_be_read_is_read_the_next_time() -> None:
    """A server that has no number yet is not written off."""
    reader = TextReader()
    assert reader.read("x -\n") == reader.read("x NaN\n") == {}
    assert reader.read("x 5\n") == {"x": 5}


def test_labels_hold_any_text() -> None:
    """Braces, quotes and blanks in a label; blanks, tabs and a timestamp around the value."""
    page = 'a{stage="x } y",b="\\"}"} 1 1700000000000\n  c\t 2\t1700000000000\nd {gpu="0"}  3\n'
    assert TextReader().read(page) == {"a[stage=x } y]": 1, "c": 2, "d[gpu=0]": 3}


def test_figures_and_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of more figures is cut; series that come and go for ever are forgotten."""
    monkeypatch.setattr(prometheus_text, "_MAX_KNOWN", 500)
    reader = TextReader()
    for round_ in range(5):
        page = "".join(f'many_{n}{{stage="{round_}"}} 1\n' for n in range(300))
        assert len(reader.read(page)) == prometheus_text.MAX_FIGURES
        assert len(reader._figures) <= 500 + 300
