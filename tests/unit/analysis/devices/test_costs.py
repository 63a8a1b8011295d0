"""Costs side by side by hand: the catalogue's rates over what was measured, and what a roofline tells of others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.analysis.devices.costs import BY_ROOFLINE, MEASURED, MERGED, UNMERGED, Offer, offers
from inferbench_tasks.analysis.devices.roofline import Measured, Prediction, predicted
from inferbench_tasks.catalogue import CONFIG_DIR, prices_for
from tests.unit.analysis.devices.builders import CPU, T4, run

HARDWARE = """rows:
  - {name: A, match: "^A$", kind: gpu, memory_gb: 1, bandwidth_gb_s: 100, fp32_tflops: 1, source: s, date: "2024"}
  - {name: B, match: "^B$", kind: gpu, memory_gb: 1, bandwidth_gb_s: 200, fp32_tflops: 2, source: s, date: "2024"}
  - {name: C, match: "^C$", kind: gpu, memory_gb: 1, bandwidth_gb_s: 400, fp32_tflops: 4, source: s, date: "2024"}
  - {name: D, match: "^D( NVL)?$", kind: gpu,
     memory_gb: 1, bandwidth_gb_s: 800, fp32_tflops: 8, source: s, date: "2024"}
  - {name: W, match: "^W$", kind: gpu, memory_gb: 1, bandwidth_gb_s: 1, fp32_tflops: 8, source: s, date: "2024"}
"""
PRICES = """rows:
  - {provider: P, instance: i-a, region: r, kind: gpu, device: A, match: "^A$", devices: 2,
     usd_per_hour: 7.2, source: s, date: "2025"}
  - {provider: Q, instance: i-a, region: r, kind: gpu, device: A, match: "^A$",
     usd_per_hour: 1.8, unverified: true, source: s, date: "2024"}
  - {provider: P, instance: i-d, region: r, kind: gpu, device: D, match: "^D$",
     usd_per_hour: 3.6, source: s, date: "2025"}
  - {provider: P, instance: i-cpu, region: r, kind: cpu, device: CPU, match: "7R32", vcpus: 8,
     usd_per_hour: 0.72, source: s, date: "2025"}
"""
#: 10^9 FLOP and 10^7 bytes of each sample: 100 FLOP/byte. The ridge of A, B, C and D is at 10.
COSTS = {"flops": 10**9, "bytes": 10**7, "parameters": 0}


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of numbers that divide well."""
    (tmp_path / "hardware.yaml").write_text(HARDWARE)
    (tmp_path / "prices.yaml").write_text(PRICES)
    monkeypatch.setenv(CONFIG_DIR, str(tmp_path))


def gpu(name: str) -> dict[str, Any]:
    return {"kind": "gpu", "name": name, "cores": 4.0}


def on(*names: str, per_s: float = 500.0) -> list[dict[str, Any]]:
    return [run(name, gpu(name), 5.0, per_s, model=COSTS) for name in names]


def one(documents: list[dict[str, Any]]) -> Offer:
    (found,) = offers(documents)
    return found


def test_each_instance_with_the_device_has_its_price() -> None:
    """500/s on A: half of 7.2 USD/h is 3.6: 2 USD of a million, 0.002 of a thousand; Q takes 1.8: 0.001, and first."""
    rows = one(on("A")).rows
    assert [(row["provider"], row["usd_per_1k_samples"]) for row in rows] == [
        ("Q", pytest.approx(0.001)),
        ("P", pytest.approx(0.002)),
    ]
    assert {row["basis"] for row in rows} == {MEASURED}
    assert [row["price"] for row in rows] == ["2024, unverified", "2025"]
    # One run: 5% at 3 degrees of freedom, t = 3.182: 500 +- 79.56 samples/s, turned over.
    assert rows[0]["ci95"] == pytest.approx([1.8 / 3.6 / 579.56, 1.8 / 3.6 / 420.44], rel=1e-4)


def test_a_processor_costs_its_share_of_the_instance() -> None:
    """Two of eight vCPUs of 0.72 USD/h are 0.18: at 100/s 0.0005 USD of a thousand."""
    (row,) = one([run("cpu", CPU, 5.0, 100.0)]).rows
    assert (row["usd_per_hour"], row["usd_per_1k_samples"]) == (pytest.approx(0.18), pytest.approx(0.0005))


def test_the_best_configuration_of_a_device_counts_and_loads_stay_apart() -> None:
    """Of two servers the larger; eight users are another load, with rows of its own; equal requests are not needed."""
    documents = [
        run("slow", gpu("A"), 5.0, 100.0),
        run("quick", gpu("A"), 5.0, 500.0) | {"submission": {"name": "s", "digest": "other"}},
        run("crowd", gpu("A"), 5.0, 900.0, users=8), run("batch", gpu("A"), 5.0, 800.0, batch=8),
    ]  # fmt: skip
    found = offers(documents)
    runs = [(offer.batch_size, offer.rows[0]["run"]) for offer in found]
    assert runs == [(1, "quick"), (1, "crowd"), (8, "batch")]
    assert len({offer.load for offer in found}) == 3


def test_what_has_no_price_says_so() -> None:
    """A GPU that the catalogue lacks, a slice of one: a note, no row."""
    offer = one([run("t4", T4, 5.0, 100.0), run("mig", gpu("A MIG 1g.10gb"), 5.0, 100.0)])
    assert offer.rows == []
    assert any("no instance with it" in note for note in offer.notes)
    assert any("a slice of a GPU" in note for note in offer.notes)


def test_a_gpu_that_was_not_measured_is_predicted_by_three_that_were() -> None:
    """Roofs of A, B, C are 1,000, 2,000 and 4,000/s: 500, 1,000 and 2,000 are a half of each. D's is 8,000:
    4,000/s and 3.6 USD/h give 0.00025. The shares are equal, so the interval is a run's 5% alone: t(2) = 4.3027."""
    documents = [*on("A"), *on("B", per_s=1000.0), *on("C", per_s=2000.0)]
    (row,) = [row for row in one(documents).rows if row["instance"] == "i-d"]
    assert row["basis"] == BY_ROOFLINE and row["run"] is None
    assert row["throughput_samples_per_s"] == pytest.approx(4000.0)
    assert row["usd_per_1k_samples"] == pytest.approx(0.00025)
    half = 4.302653 * 0.05
    assert row["ci95"] == pytest.approx([0.00025 * math.exp(-half), 0.00025 * math.exp(half)], rel=1e-5)
    assert row["rests_on"] == "50.0% of the roof of D (arithmetic-bound); measured: A 50.0%, B 50.0%, C 50.0%"


def test_shares_that_differ_widen_a_prediction() -> None:
    """Shares of 1/4, 1/2 and 1: logarithms -2, -1, 0 times ln 2, s = ln 2, mean -ln 2: half of the roof, within
    t(2) sqrt(ln2^2 x 4/3 + 0.0025).
    """
    measured = [Measured("A", 250.0, COSTS), Measured("B", 1000.0, COSTS), Measured("C", 4000.0, COSTS)]
    found = predicted("D", measured, "fp32", 1)
    assert isinstance(found, Prediction)
    half = 4.302653 * math.sqrt(math.log(2) ** 2 * 4 / 3 + 0.0025)
    assert found.throughput_samples_per_s == pytest.approx(4000.0)
    assert found.interval == pytest.approx((4000 * math.exp(-half), 4000 * math.exp(half)), rel=1e-5)


def test_weights_are_read_once_for_a_batch() -> None:
    """40 MB of which 32 are weights: a batch of 4 moves 32 + 4 x 8 = 64 MB for 4e8 FLOP, 6.25 FLOP/byte. By A's 100
    GB/s that is 6,250 samples/s, of D 50,000; by a batch of 1, 2.5 FLOP/byte, D's roof is 20,000.
    """
    model = {"flops": 10**8, "bytes": 4 * 10**7, "parameters": 8 * 10**6}
    for batch, half_of_a in ((4, 3125.0), (1, 1250.0)):
        measured = [
            Measured(name, factor * half_of_a, model) for name, factor in (("A", 1), ("B", 2), ("C", 4))
        ]
        found = predicted("D", measured, "fp32", batch)
        assert isinstance(found, Prediction) and found.throughput_samples_per_s == pytest.approx(
            8 * half_of_a
        )
        assert found.rests_on.startswith("50.0% of the roof of D (memory-bound)")


@pytest.mark.parametrize(
    ("device", "measured", "precision", "why"),
    [
        ("D", ("A", "B"), "fp32", "there are 2"),
        ("D", ("A", "B", "T4"), "fp32", "there are 2"),
        ("D", ("A", "B", "B"), "fp32", "there are 2"),
        ("T4", ("A", "B", "C"), "fp32", "no bandwidth and fp32 peak"),
        ("D NVL", ("A", "B", "C"), "fp32", "no bandwidth and fp32 peak"),
        ("D", ("A", "B", "C"), "int8", "no bandwidth and int8 peak"),
        ("D", ("A", "B", "C"), "fp64", "no bandwidth and fp64 peak"),
        ("W", ("A", "B", "C"), "fp32", "bound by memory, which it is on no GPU"),
    ],
)
def test_what_is_not_covered_is_refused(
    device: str, measured: tuple[str, ...], precision: str, why: str
) -> None:
    """Too few GPUs, the same one twice, no datasheet, one of another variant, no peak, another bound."""
    found = predicted(device, [Measured(name, 100.0, COSTS) for name in measured], precision, 1)
    assert isinstance(found, str) and why in found


def test_a_model_whose_costs_nobody_knows_or_that_does_not_fit_is_refused() -> None:
    """Without FLOPs there is no roof; 300 million weights of four bytes are more than a GB."""
    unknown = [Measured(name, 100.0, {}) for name in "ABC"]
    assert "there are 0" in str(predicted("D", unknown, "fp32", 1))
    large = {"flops": 10**12, "bytes": 13 * 10**8, "parameters": 3 * 10**8}
    found = predicted("D", [Measured(name, 1.0, large) for name in "ABC"], "fp32", 1)
    assert "do not fit into its 1 GB" in str(found)


def as_stored(precision: str, asked: str = "fp32", form: str = "onnx") -> list[dict[str, Any]]:
    """Runs on three GPUs of a file whose weights are in that."""
    job = {"convert": {"format": form, "precision": asked}}
    model = {**COSTS, "precision": precision}
    return [
        run(name, gpu(name), 5.0, 500.0, model=model, format=form, provenance={"job": job}) for name in "ABC"
    ]


def test_no_roof_is_that_of_what_weights_are_called() -> None:
    """OpenVINO computes in fp32 with weights of fp16; of a quantised file it is not known, however small it is."""
    assert "i-d" in {row["instance"] for row in one(as_stored("fp16", form="openvino")).rows}
    for precision in ("int8", "int4", "fp8"):
        offer = one(as_stored(precision))
        assert "i-d" not in {row["instance"] for row in offer.rows}
        assert any("in which precision its files compute is not known" in note for note in offer.notes)
    large = {"flops": 10**12, "bytes": 13 * 10**8, "parameters": 10**9, "precision": "int4"}
    found = predicted("D", [Measured(name, 1.0, large) for name in "ABC"], "fp32", 1)
    assert not isinstance(found, str), "half a byte each fits into its GB"


def test_what_a_file_is_called_makes_no_other_model_of_it() -> None:
    """Earlier versions called each fp32: one group, by its newest name; what was asked for tells two apart."""
    both = [*as_stored("int8")[:1], *as_stored("fp32")[1:]]
    assert one(both).thing.precision == "int8 weights"
    asked = [*as_stored("fp16", "fp16")[:1], *as_stored("fp16")[1:]]
    assert {offer.thing.precision for offer in offers(asked)} == {"fp16", "fp16 weights"}


def test_refusals_are_said_with_their_instances_and_invalid_runs_count_for_nothing() -> None:
    """Three GPUs, one of whose runs is not valid: two, so i-d has no row and a note."""
    documents = [*on("A"), *on("B"), run("C", gpu("C"), 5.0, 500.0, model=COSTS, verdict="invalid: late")]
    offer = one(documents)
    assert "i-d" not in {row["instance"] for row in offer.rows}
    assert any(note.startswith("not predicted: P i-d: ") and "there are 2" in note for note in offer.notes)
    assert offers([run("C", gpu("C"), 5.0, 500.0, verdict="failed: load, died")]) == []


def test_the_price_of_the_best_of_two_has_a_wider_interval() -> None:
    """Two comparisons at 3 degrees: t = 4.176535: 500 +- 104.41 samples/s, at 1.8 USD/h."""
    documents = [run("slow", gpu("A"), 5.0, 100.0) | {"submission": {"name": "s", "digest": "x"}}, *on("A")]
    row = one(documents).rows[0]
    assert row["run"] == "A"
    assert row["ci95"] == pytest.approx([0.5 / 604.41, 0.5 / 395.59], rel=1e-4)


def test_no_roofline_rests_on_a_server_that_merges_requests() -> None:
    """A merged run of A is priced at its 900/s, and beside it the best that does not merge, the like of what is
    predicted; predicted is by the 500/s without, or by nothing.
    """
    merging: Any = {"provenance": {"job": {"serve": {"batching": {"max_batch_size": 16}}}}}
    merged = run("merged", gpu("A"), 5.0, 900.0, model=COSTS, **merging) | {
        "submission": {"name": "s", "digest": "x"}
    }
    others = [*on("B", per_s=1000.0), *on("C", per_s=2000.0)]
    rows = {
        (row["instance"], row["provider"], row["requests_merged"]): row
        for row in one([merged, *on("A"), *others]).rows
    }
    assert rows["i-a", "Q", MERGED]["run"] == "merged"
    alike = rows["i-a", "Q", UNMERGED]
    assert (alike["run"], alike["throughput_samples_per_s"]) == ("A", 500.0)
    # The best of one: its interval is that of a single comparison.
    assert alike["ci95"] == pytest.approx([0.5 / 579.56, 0.5 / 420.44], rel=1e-4)
    assert rows["i-d", "P", UNMERGED]["throughput_samples_per_s"] == pytest.approx(4000.0)
    assert ("i-d", "P", MERGED) not in rows
    offer = one([merged, *others])
    assert "i-d" not in {row["instance"] for row in offer.rows}
    assert any("A, 4 cores: its server merges requests" in note for note in offer.notes)


def test_each_gpus_share_is_of_the_work_of_its_own_file() -> None:
    """A's file needs twice the FLOP: its roof is 500/s, of which 250 are a half. What D's would need nobody knows."""
    twice = {**COSTS, "flops": 2 * 10**9}
    measured = [Measured("A", 250.0, twice), Measured("B", 1000.0, COSTS), Measured("C", 2000.0, COSTS)]
    for order in (measured, measured[::-1]):
        said = str(predicted("D", order, "fp32", 1))
        assert "ran files of different work" in said
        assert "A 2e+09 FLOP, 1e+07 bytes, 0 parameters" in said


def test_a_gpu_whose_files_work_nobody_knows_takes_nothing_from_the_others() -> None:
    """The first result has no FLOPs, three others have: D is predicted by these."""
    measured = [Measured("W", 1.0, {})] + [
        Measured(name, per_s, COSTS) for name, per_s in (("A", 500.0), ("B", 1000.0), ("C", 2000.0))
    ]
    found = predicted("D", measured, "fp32", 1)
    assert isinstance(found, Prediction) and found.throughput_samples_per_s == pytest.approx(4000.0)


def test_rows_say_how_their_devices_were_asked() -> None:
    """Over gRPC, through shared memory, or by other requests it is another offer; its title and rows say so."""
    provenance: Any = {"provenance": {"job": {"requests": {"kind": "random", "samples": 8}}}}
    other = run("other", gpu("A"), 5.0, 900.0)
    other["load"]["protocol"] = "grpc"
    shared = run("shared", gpu("A"), 5.0, 950.0)
    shared["load"] |= {"protocol": "grpc", "transport": "shared_memory"}
    found = offers([*on("A"), other, shared, run("noise", gpu("A"), 5.0, 700.0, **provenance)])
    told = {(offer.rows[0]["protocol"], offer.rows[0]["asked"]) for offer in found}
    assert told == {
        ("http", "requests not recorded"),
        ("grpc", "requests not recorded"),
        ("grpc, inputs in shared memory", "requests not recorded"),
        ("http", "random requests (samples 8)"),
    }
    assert len({offer.words for offer in found}) == 4


def test_more_than_the_roof_is_refused() -> None:
    """4,000/s on A, whose roof is 1,000: what ran is not what was counted."""
    measured = [Measured("A", 4000.0, COSTS), Measured("B", 500.0, COSTS), Measured("C", 500.0, COSTS)]
    assert "A reached 400% of its roof" in str(predicted("D", measured, "fp32", 1))


def test_gpus_without_tensor_cores_for_a_type_have_no_roof_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the shipped table: bf16 neither on V100, T4 nor P4, fp16 not on P4; fp32 everywhere."""
    monkeypatch.delenv(CONFIG_DIR)
    for device, refused in (("Tesla V100", ["bf16"]), ("Tesla T4", ["bf16"]), ("Tesla P4", ["fp16", "bf16"])):
        for precision in ("fp32", "fp16", "bf16"):
            said = predicted(device, [], precision, 1)
            assert ("no bandwidth and" in str(said)) == (precision in refused), (device, precision, said)


def test_weights_have_to_fit_into_the_instances_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 thousand million weights are 20 GB: too much for the 16 GB of a p3.2xlarge, though there is a V100 of 32; a
    PCIe card or one of 32 GB is none of its.
    """
    monkeypatch.delenv(CONFIG_DIR)
    large = {"flops": 4 * 10**12, "bytes": 24 * 10**9, "parameters": 5 * 10**9}
    measured = [
        Measured(name, 2.0, large) for name in ("NVIDIA A10G", "NVIDIA H100 80GB HBM3", "A100-SXM4-80GB")
    ]
    (price,) = [row for row in prices_for("gpu", "Tesla V100-SXM2-16GB") if row.provider == "AWS"]
    said = predicted(price.device, measured, "fp32", 8, price.memory_gb)
    assert "do not fit into its 16 GB" in str(said)
    for name in ("Tesla V100-PCIE-32GB", "Tesla V100-PCIE-16GB", "Tesla V100-SXM2-32GB"):
        assert prices_for("gpu", name) == []


def test_a_processor_of_unknown_cores_has_no_price() -> None:
    """Its share of the instance is not known: a note instead of the whole instance's price."""
    offer = one([run("old", {**CPU, "cores": None}, 5.0, 100.0)])
    assert offer.rows == [] and any("from before cores were stored" in note for note in offer.notes)


def test_costs_of_two_versions_of_a_server_say_so() -> None:
    """In a note of the offer; of one version there is none."""
    cpu, gpu = run("c", CPU, 10.0, 100.0), run("g", T4, 5.0, 200.0)
    assert not any("version" in note for note in offers([cpu, gpu])[0].notes)
    gpu["backend"]["version"] = "2"
    [note] = [note for note in offers([cpu, gpu])[0].notes if "version" in note]
    assert note == (
        "onnxruntime ran in 2 versions, and what lies between these may be the version's: 1: AMD EPYC 7R32, 2 cores; "
        "2: Tesla T4, 4 cores"
    )
