"""What TensorFlow's profile comes to as layers, by hand; the messages are written as TSL's own definition has them."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from inferbench_tasks.protocols.xplane_proto import message
from inferbench_tasks.servers.sources.tensorflow import MARK, TensorFlowProfiler, layers_of

BEGAN_NS = 1_700_000_000_000_000_000
#: The one mark began within 2 us around it.
BRACKETS = [(BEGAN_NS - 1000, BEGAN_NS + 1000)]
#: Name -> thread, and when it began and how long it took, us since the profile began.
Events = dict[str, tuple[int, float, float]]


def space(events: Events, plane: str = "/host:CPU") -> Any:
    """A profile whose threads' lines begin 2 us after it did."""
    names = list(events)
    made = message("XPlane")(name=plane)
    for at, name in enumerate(names):
        made.event_metadata.add(key=at + 1).value.name = name
    for thread in sorted({thread for thread, _, _ in events.values()}):
        line = made.lines.add(id=thread, name=f"thread {thread}", timestamp_ns=2_000)
        for at, (of, start_us, took_us) in enumerate(events.values()):
            if of == thread:
                line.events.add(
                    metadata_id=at + 1,
                    offset_ps=round((start_us - 2) * 1e6),
                    duration_ps=round(took_us * 1e6),
                )
    space_ = message("XSpace")(planes=[message("XPlane")(name="Task Environment"), made])
    return message("XSpace").FromString(space_.SerializeToString())


def test_kernels_are_layers_whatever_thread_ran_them() -> None:
    """By their beginnings, in Unix time by the mark, which began 10 us after the profile; other events are none, nor is
    a call whose kernels are told."""
    layers = layers_of(
        space(
            {
                MARK.format(0): (1, 10, 0.5),
                "EagerLocalExecute: __inference_signature_wrapper_7": (1, 11, 480),
                "ExecutorState::Process": (2, 12, 470),
                "StatefulPartitionedCall:StatefulPartitionedCall": (2, 13, 460),
                "model/dense/Relu:_FusedMatMul": (2, 40, 100.25),
                "model/conv/Conv2D:Conv2D": (3, 20, 15),
            }
        ),
        BRACKETS,
    )
    assert layers == [
        {"name": "model/conv/Conv2D", "type": "Conv2D", "attributes": {},
         "start_ns": BEGAN_NS + 10_000, "end_ns": BEGAN_NS + 25_000},
        {"name": "model/dense/Relu", "type": "_FusedMatMul", "attributes": {},
         "start_ns": BEGAN_NS + 30_000, "end_ns": BEGAN_NS + 130_250},
    ]  # fmt: skip


def test_a_call_that_tells_of_nothing_inside_is_the_layer() -> None:
    """Else nothing would be known of the run."""
    (layer,) = layers_of(space({MARK.format(0): (1, 10, 90), "call:PartitionedCall": (1, 20, 30)}), BRACKETS)
    assert (layer["name"], layer["end_ns"] - layer["start_ns"]) == ("call", 30_000)


def test_the_mark_with_the_nearest_readings_tells_the_clock() -> None:
    """The first was read 8 ms late, for its thread had no core; the second began within 2 us, 5 us after the first."""
    late = (BEGAN_NS, BEGAN_NS + 8_000_000)
    events: Events = {MARK.format(0): (1, 10, 1), MARK.format(1): (1, 15, 1), "a:Conv2D": (1, 20, 30)}
    (layer,) = layers_of(space(events), [late, *BRACKETS])
    assert layer["start_ns"] == BEGAN_NS + 5_000
    (layer,) = layers_of(space(events), [late])
    assert layer["start_ns"] == BEGAN_NS + 4_010_000, "nothing better is known"


@pytest.mark.parametrize("plane", ["/host:CPU", "/device:GPU:0"])
def test_without_the_mark_or_of_another_plane_nothing_is_told(plane: str) -> None:
    """Times without a clock to set them against would be anybody's; a device's are none of the host's."""
    events: Events = {"a:Conv2D": (1, 20, 30)}
    if plane != "/host:CPU":
        events[MARK.format(0)] = (1, 10, 90)
    assert layers_of(space(events, plane), BRACKETS) == []


def test_runs_without_a_kernel_are_lost_if_they_are_of_traced_requests() -> None:
    """Four profiles told nothing: one of the warm-up, one of a run that raised, one of a traced request, one of what is
    asked after these. The third alone is lost."""
    source = TensorFlowProfiler("unused")
    for start_ns, told in ((5, False), (10, True), (15, False)):
        source._runs.append((start_ns, told))
    source.raised()
    source._runs += [(20, False), (40, False)]
    source.spans(10, 30)
    assert source.lost == 1


def test_the_messages_are_tsl_s_own() -> None:
    """Fields of the same name have the same numbers and types; ours are fewer."""
    import importlib.util
    import re
    from pathlib import Path

    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        pytest.skip("TensorFlow is not installed")
    # Read as text: importing it takes ten seconds of CPU.
    text = (Path(found.origin).parent / "tsl/profiler/protobuf/xplane_pb2.py").read_text()
    serialised = re.search(r"AddSerializedFile\((b'.*?')\)\n", text)
    assert serialised is not None
    file = descriptor_pb2.FileDescriptorProto.FromString(ast.literal_eval(serialised[1]))
    official = {each.name: {field.name: field for field in each.field} for each in file.message_type}
    compared = 0
    for name in ("XSpace", "XPlane", "XLine", "XEvent", "XEventMetadata"):
        for field in message(name).DESCRIPTOR.fields:
            theirs = official[name][field.name]
            assert field.number == theirs.number, (name, field.name)
            if name != "XPlane" or field.name != "event_metadata":
                assert field.type == theirs.type and field.is_repeated == (theirs.label == 3)
            compared += 1
    assert compared == 13
