"""What BenchmarkJade's own table and logs say, and what clean ones do not."""

from __future__ import annotations

from inferbench_tasks.training.diagnosis import unsynchronised
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.imports import diagnose
from inferbench_tasks.training.imported import log, table
from inferbench_tasks.training.imported.rows import Import
from tests.unit.training.jade_files import HEADER, TABLE
from tests.unit.training.jade_files import log as log_text

ROWS = table.read(TABLE, "t.md")


def causes(content: Import, rule: str) -> list[Cause]:
    return [cause for cause in diagnose(content) if cause.rule == rule]


def test_the_cpu_allocation_is_the_first_cause_and_its_gain_is_the_measured_one() -> None:
    """40 processes on 2 cores; without the warning the same work took 1.8412 s instead of 6.9992."""
    freed = log.read(log_text(loading_s=1.6097, forward_s=0.2315, warns=False), "max.out")
    first = diagnose(Import(rows=ROWS, logs=[log.read(log_text(), "few.out"), freed]))[0]
    assert first.rule == "cores" and first.kind == "cause"
    assert first.sentence.startswith("40 processes share 2 granted core(s) on 8 device(s)")
    assert first.cost_s is not None and abs(first.cost_s - (6.9992 - 1.8412)) < 1e-9
    assert any("3.8 times faster" in line for line in first.evidence)
    assert first.remedy == "Ask for a core for each process, 40 in all (the node has 40)."


def test_smooth_inference_has_no_loader_processes() -> None:
    """It iterates over the data itself, whatever `num_workers` says: eight ranks on two cores are 8 processes; one rank
    on two cores waits for none.
    """
    many, one = (
        log.read(log_text(devices=n, loading_s=0.2201, processing_s=0.0503, forward_s=0.04), f"{n}.out")
        for n in (8, 1)
    )
    (cause,) = causes(Import(logs=[many, one]), "cores")
    assert cause.sentence.startswith("8 processes share 2 granted core(s) on 8 device(s)")
    assert "for 8 rank(s) with 0 loader process(es) each" in cause.evidence[0]
    assert not any("1.out" in line for line in cause.evidence)


def test_logs_of_other_allocations_are_cases_of_their_own() -> None:
    """40 processes on 2 cores and on 20: two causes, none with the other's figures as evidence."""
    few = log.read(log_text(), "few.out")
    some = log.read(log_text(loading_s=3.0).replace("system is 2,", "system is 20,"), "some.out")
    found = causes(Import(logs=[few, some]), "cores")
    assert sorted(c.sentence.split(" granted")[0] for c in found) == [
        "40 processes share 2", "40 processes share 20",
    ]  # fmt: skip
    assert not any("some.out" in line for c in found if "share 2 " in c.sentence for line in c.evidence)


def test_cores_that_make_nothing_faster_are_no_cause() -> None:
    """The same work with cores enough took as long: what the loader warns of held nothing up."""
    same = log.read(log_text(warns=False), "max.out")
    assert causes(Import(rows=ROWS, logs=[log.read(log_text(), "few.out"), same]), "cores") == []


def test_forward_on_one_device_is_as_it_should_be_and_loading_is_not() -> None:
    """0.1510 by 0.0962 s is 1.57, expected 1 by (0.67 x 0.943); 1.0153 by 0.0403 s is 25."""
    (of,) = [
        c
        for c in causes(Import(rows=ROWS), "expected_device")
        if "A40 (ImageNet, inference, 1" in c.sentence and "JADE2" in c.sentence
    ]
    assert (
        "forward 1.57 x, expected 1.58 x: as it should be; loading 25.2 x: the input pipeline" in of.sentence
    )
    assert of.kind == "comparison" and of.remedy is not None and of.remedy.startswith("Leave the device")


def test_a_step_is_set_beside_the_other_as_a_whole() -> None:
    """1.0153 + 0.1510 by 0.0403 + 0.0962 s is 8.54; of the 8 devices of the log 6.9992 by 0.2234 is 31.3."""
    content = Import(rows=ROWS, logs=[log.read(log_text(), "few.out")])
    told = [line for c in causes(content, "expected_device") for line in c.evidence]
    assert "all columns: 1.1663 s beside 0.1365 s, 8.54 x" in told
    assert "all columns: 6.9992 s beside 0.2234 s, 31.3 x" in told


def test_one_device_is_to_be_as_fast_on_every_cluster() -> None:
    """No factor speaks of it and none is needed: forward 1.02 x, expected 1; loading is 25 times as long. Once, the
    slower cluster by the other, in whichever order they stand.
    """
    rows = [
        f"| {cluster} | a | Inference | A40 | 1 | 4 | {loading} | - | {forward} | - |\n"
        for cluster, loading, forward in (("old", "0.0403", "0.0962"), ("new", "1.0153", "0.0981"))
    ]
    for order in (rows, rows[::-1]):
        content = Import(rows=table.read(f"### Resnet 50 (fp32)\n{HEADER}{''.join(order)}", "t"))
        (cause,) = causes(content, "expected_device")
        assert cause.sentence.startswith("new A40 beside old A40 (a, inference, 1 device(s)): ")
        assert "forward 1.02 x, expected 1 x: as it should be; loading 25.2 x: the input pipeline" in (
            cause.sentence
        )
        assert cause.cost_s is not None and abs(cause.cost_s - (1.0153 - 0.0403 + 0.0981 - 0.0962)) < 1e-9


def test_loading_that_is_no_part_of_the_step_holds_nothing_up() -> None:
    """25 times as long, from 0.04 to 1 ms of a step of 151 ms: no cause, no remedy, no cost."""
    rows = "".join(
        f"| {cluster} | a | Inference | {device} | 1 | 4 | {loading} | - | {forward} | - |\n"
        for cluster, device, loading, forward in (
            ("JADE2", "V100", "0.0010", "0.1510"), ("Bede", "A40", "0.00004", "0.0962"),
        )
    )  # fmt: skip
    content = Import(rows=table.read(f"### Resnet 50 (fp32)\n{HEADER}{rows}", "t"))
    (cause,) = causes(content, "expected_device")
    assert "as it should be" in cause.sentence and "input pipeline" not in cause.sentence
    assert cause.remedy is None and cause.cost_s is None


def test_the_true_number_of_devices_counts_in_comparisons() -> None:
    """The row says 4 devices, for which there is no factor; its log says 8, for which there is."""
    content = Import(rows=ROWS, logs=[log.read(log_text(), "few.out")])
    words = [c.sentence for c in causes(content, "expected_device")]
    assert any(
        "inference, 8 device(s)): forward 8.81 x, expected 1.61 x: 5.5 times slower" in text for text in words
    )
    assert not any("5.5 times" in c.sentence for c in causes(Import(rows=ROWS), "expected_device"))


def test_columns_faster_than_the_datasheet_are_wrong() -> None:
    """0.0082 s for 128 images of ResNet-50 is 128 TFLOP/s on a V100 of 15.7; the sum is inference's forward."""
    (cause,) = causes(Import(rows=ROWS), "unsynchronised")
    assert any(
        "0.0082 s for 128 images is 128 TFLOP/s; the datasheet has 15.7" in line for line in cause.evidence
    )
    assert any("sum is 0.1100 s, and inference's forward 0.1128" in line for line in cause.evidence)
    slow = [row for row in ROWS if row.benchmark != "smooth_inference"]
    assert causes(Import(rows=slow), "unsynchronised") == []


def test_what_the_datasheet_allows_is_wrong_beside_the_same_pass_that_was_waited_for() -> None:
    """Smooth inference's forward of 0.0048 s on an A40 is 218 TFLOP/s, below four times its 74.8 of TF32; inference's
    takes 0.0955 s at least, and the row's sum is that. A row that is near it, or on a device that runs in step with its
    host, is none.
    """
    rows = (
        "| TN | ImageNet | Smooth Inference | {device} | 1 | 4 | 0.0882 | 0.0013 | {smooth} | - |\n"
        "| TN | ImageNet | Inference | {device} | 1 | 4 | 0.0403 | - | 0.0962 | - |\n"
        "| TN | Dummy | Inference | {device} | 1 | 4 | 0.0267 | - | 0.0955 | - |\n"
    )

    def found(device: str, smooth: str) -> list[Cause]:
        text = f"### Resnet 50 (fp32)\n{HEADER}{rows.format(device=device, smooth=smooth)}"
        return causes(Import(rows=table.read(text, "t")), "unsynchronised")

    (cause,) = found("A40", "0.0048")
    assert cause.sentence.startswith("The forward times of 1 row(s)")
    assert (
        "forward 0.0048 s, where inference's forward on A40 takes 0.0955 s at least (t:6)"
        in (cause.evidence[0])
    )
    assert "t:4: the columns' sum is 0.0943 s, and inference's forward 0.0962" in cause.evidence[1]
    assert found("A40", "0.0500") == []
    assert found("AMD EPYC 7763 64-Core Processor", "0.0048") == []


def test_no_batch_is_assumed_where_logs_have_several() -> None:
    """A row's own log says 8 images in 0.0082 s, which is 8 TFLOP/s; of a row without one, nobody knows the batch."""
    logs = [
        log.read(log_text(data="other").replace("batch_size: 128", f"batch_size: {n}"), f"{n}")
        for n in (64, 8)
    ]
    (row,) = [r for r in ROWS if r.forward_s == 0.0082]
    assert causes(Import(rows=[row]), "unsynchronised") != []
    assert causes(Import(rows=[row], logs=logs), "unsynchronised") == []
    own = logs[1].model_copy(update={"benchmark": row.benchmark, "data": row.data} | {
        f"{phase}_s": row.time_s(phase) or 0.0 for phase in ("loading", "processing", "forward")
    })  # fmt: skip
    assert causes(Import(rows=[row], logs=[own]), "unsynchronised") == []
    assert causes(
        Import(rows=[row], logs=[own.model_copy(update={"batch_size": 128}), logs[0]]), "unsynchronised"
    )


def test_what_fewer_products_explain_is_not_impossible() -> None:
    """50 TFLOP/s on a V100 of 15.7 are its peak by a convolution that needs a quarter of the products and a bit."""
    forward_s = unsynchronised.FORWARD_FLOP["resnet50"] * 128 / 50e12
    row = f"| x | a | Train | V100 | 1 | 4 | 0.1 | - | {forward_s:.4f} | 0.1 |\n"
    content = Import(rows=table.read(f"### Resnet 50 (fp32)\n{HEADER}{row}", "t"))
    assert list(unsynchronised.find(content)) == []


def test_tf32_counts_where_the_device_has_it() -> None:
    """70 TFLOP/s of fp32 are possible on an A40 (74.8 of TF32), impossible on a V100 (15.7, of which algorithms with a
    quarter of the products make 62.8), whose tensor cores have fp16.
    """
    forward_s = unsynchronised.FORWARD_FLOP["resnet50"] * 128 / 70e12
    for device, precision, impossible in (
        ("A40", "fp32", False),
        ("V100", "fp32", True),
        ("V100", "fp16", False),
    ):
        row = f"| x | a | Train | {device} | 1 | 4 | 0.1 | - | {forward_s:.4f} | 0.1 |\n"
        text = f"### Resnet 50 ({precision})\n{HEADER}{row}"
        assert bool(list(unsynchronised.find(Import(rows=table.read(text, "t"))))) is impossible


def test_the_cell_that_does_not_fit_is_named_with_what_would() -> None:
    """0.559 beside 0.0400, where all other pairs differ by a quarter at most."""
    (cause,) = causes(Import(rows=ROWS), "misfit")
    assert cause.sentence.startswith(
        "0.559 s of forward does not fit its row (JADE2, Dummy, smooth inference"
    )
    assert cause.remedy == "Look it up in the log; 0.0559 would fit."
    assert any("3 digits behind the point, every other cell 4" in line for line in cause.evidence)
    whole = table.read(TABLE.replace("0.559 ", "0.0559"), "t.md")
    assert causes(Import(rows=whole), "misfit") == []


def test_a_slip_of_the_pen_is_found_in_the_log_of_its_row() -> None:
    """The log has the row's other times, 0.1844 and 0.0468 s, and 0.0559 in place of 0.559: that is the figure, and its
    8 devices are the row's. A log of another time is a repetition, and tells nothing of the row.
    """
    own = log.read(
        log_text(data="dummy", loading_s=0.1844, processing_s=0.0468, forward_s=0.0559), "599952.out"
    )
    (cause,) = causes(Import(rows=ROWS, logs=[own]), "misfit")
    assert cause.remedy == "Take the log's 0.0559 s."
    assert "599952.out, with the other times of the row, has 0.0559 s" in cause.evidence
    told = [c.sentence for c in causes(Import(rows=ROWS, logs=[own]), "contradiction")]
    assert told == [
        "The table says 4 devices for 1 run(s), their logs 8.",
        "The table says 0.559 s of forward for 1 run(s), their logs 0.0559.",
    ]
    other = own.model_copy(update={"forward_s": 0.0561})
    assert causes(Import(rows=ROWS, logs=[other]), "contradiction") == []
    (cause,) = causes(Import(rows=ROWS, logs=[other]), "misfit")
    assert cause.remedy == "Look it up in the log; 0.0559 would fit."


def test_a_log_with_other_devices_than_its_row_is_a_contradiction() -> None:
    """The same times, 4 devices in the table and 8 in the log; a log of other times is of another run."""
    (cause,) = causes(Import(rows=ROWS, logs=[log.read(log_text(), "few.out")]), "contradiction")
    assert cause.sentence == "The table says 4 devices for 1 run(s), their logs 8."
    assert "Devices used: 8 x Tesla V100-SXM2-32GB-LS" in cause.evidence[0]
    other = log.read(log_text(loading_s=5.8, forward_s=1.2), "other.out")
    assert causes(Import(rows=ROWS, logs=[other]), "contradiction") == []


def test_times_of_a_tenth_of_a_millisecond_are_alike_by_chance() -> None:
    """0.000081 and 0.000052 s of a small network, and 0.0001 and 0.0001 of its log: of one digit each nobody knows
    whether they are of one run, nor so of 0.0000; of 0.0012 and 0.0305 it is told.
    """

    def found(loading: str, forward: str, logged: tuple[float, float]) -> list[Cause]:
        rows = table.read(
            f"{HEADER}| x | ImageNet | Inference | cpu | 1 | 4 | {loading} | - | {forward} | - |\n", "t"
        )
        logs = [log.read(log_text(loading_s=logged[0], forward_s=logged[1]), "l")]
        return causes(Import(rows=rows, logs=logs), "contradiction")

    assert not found("0.000081", "0.000052", (0.0001, 0.0001))
    assert not found("0.000011", "0.000012", (0.0, 0.0))
    assert found("0.001213", "0.030512", (0.0012, 0.0305))


def test_a_sound_import_has_no_cause() -> None:
    """One cluster, enough cores, no cell out of place."""
    rows = [
        row
        for row in ROWS
        if row.cluster == "TN" and row.device == "V100" and row.benchmark != "smooth_inference"
    ]
    logs = [log.read(log_text(devices=1, loading_s=0.1022, forward_s=0.1128, warns=False), "x")]
    assert diagnose(Import(rows=rows, logs=logs)) == []
