"""What oneDNN prints, and what its primitives calculate and move."""

from __future__ import annotations

import os

import pytest

from inferbench_tasks.servers.sources.onednn import StandardOutput, primitives_of
from inferbench_tasks.servers.sources.onednn_work import work_of

LINE = (
    "onednn_verbose,v1,1795697832804.387939,primitive,exec,cpu,convolution,jit:avx512_core,forward_training,"
    "src:f32:a:blocked:abcd::f0 wei:f32:a:blocked:Acdb16a::f0 bia:f32:a:blocked:a::f0 dst:f32:a:blocked:aBcd16b::f0,"
    "attr-scratchpad:user,alg:convolution_direct,mb1_ic3oc64_ih224oh112kh7sh2dh0ph3_iw224ow112kw7sw2dw0pw3,2.5"
)
F32 = "src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0"


def test_a_line_is_a_primitive_with_its_moments() -> None:
    """As oneDNN 3.12 printed it; what was created, what is no primitive and what is cut off is none."""
    lines = [
        LINE,
        LINE.replace(",exec,", ",create:cache_hit,"),
        "onednn_verbose,v1,info,gpu,runtime:none",
        LINE[:200],
    ]
    (found,) = primitives_of(lines)
    assert (found.name, found.type) == ("jit:avx512_core", "convolution")
    assert found.end_ns - found.start_ns == 2_500_000
    assert abs(found.start_ns - 1_795_697_832_804_387_939) < 250
    assert found.attributes["flops"] == 2 * 64 * 112 * 112 * 3 * 7 * 7
    assert found.attributes["bytes"] == 4 * (3 * 224 * 224 + 64 * 3 * 7 * 7 + 64 + 64 * 112 * 112)


@pytest.mark.parametrize(
    ("kind", "memory", "attributes", "problem", "flops", "moved"),
    [
        # a group of one channel each: a ninth of a multiply-add for each of 3 x 3, once
        ("convolution", F32, "", "g8mb2_ic8oc8_ih4oh4kh3sh1dh0ph1_iw4ow4kw3sw1dw0pw1", 2 * 256 * 9,
         4 * (256 + 72 + 256)),
        # added to what is there: that is read too
        ("convolution", F32, "attr-post-ops:sum+eltwise_relu", "mb1_ic4oc2_ih3oh3kh1sh1dh0ph0_iw3ow3kw1sw1dw0pw0",
         2 * 18 * 4, 4 * (36 + 8 + 18 + 18)),
        ("convolution", F32, "attr-post-ops:binary_add:f32:1", "mb1_ic4oc2_ih3oh3kh1_iw3ow3kw1", None, None),
        # 2 x 2 values, each spread over 3 channels and 2 x 2
        ("deconvolution", F32, "", "mb1_ic5oc3_ih2oh4kh2sh2dh0ph0_iw2ow4kw2sw2dw0pw0", 2 * 20 * 12,
         4 * (20 + 60 + 48)),
        ("inner_product", F32 + " bia:f32::blocked:a::f0", "", "mb2ic64oc10", 2 * 2 * 64 * 10,
         4 * (128 + 640 + 10 + 20)),
        ("matmul", F32, "", "4x2x8:1x8x16", 2 * 4 * 2 * 16 * 8, 4 * (64 + 128 + 128)),
        ("matmul", F32.replace("f32", "bf16"), "", "2x8:8x16", 2 * 2 * 16 * 8, 2 * (16 + 128 + 32)),
        ("matmul", F32, "", "2x8:9x16", None, None),
        ("reorder", "src:f32::blocked:ab::f0 dst:u8::blocked:ab::f0", "", "3x5", 0, 15 * 5),
        ("pooling", "src:f32::blocked:acdb::f0 dst:f32::blocked:acdb::f0", "",
         "mb1ic64_ih112oh56kh3sh2dh0ph1_iw112ow56kw3sw2dw0pw1", 0, 4 * 64 * (112 * 112 + 56 * 56)),
        ("pooling", "src:f32::blocked:acdb::f0 dst:f32::blocked:acdb::f0 ws:u8::blocked:acdb::f0", "",
         "mb1ic1_ih2oh1_iw2ow1", 0, None),
        ("layer_normalization", F32, "", "8x768", 0, None),
        # one tensor for both, as oneDNN prints it; read once, written once
        ("eltwise", "data:bf16::blocked:abcd::f0 diff:undef::undef:::", "", "8x64x7x7", 0, 2 * 2 * 8 * 64 * 7 * 7),
        # the plus of a number is none between what is fused
        ("convolution", F32, "attr-post-ops:eltwise_clip:0:1e+06+sum", "mb1_ic4oc2_ih3oh3kh1_iw3ow3kw1",
         2 * 18 * 4, 4 * (36 + 8 + 18 + 18)),
        # forms that are not known
        ("matmul", F32, "", "8:16", None, None),
        ("matmul", "src", "", "2x8:8x16", None, None),
        ("convolution", F32, "", "g0mb1_ic4oc0_ih3oh3kh1_iw3ow3kw1", None, None),
        ("reorder", "src", "", "3x5", 0, None),
        ("matmul", F32.replace("f32", "s4"), "", "2x8:8x16", 2 * 2 * 16 * 8, None),
        ("rnn", F32, "", "l1t5mb1sic8slc8dhc8dic8", None, None),
        ("a kind of tomorrow", F32, "", "1x2", None, None),
    ],
)  # fmt: skip
def test_work_is_counted_or_not_known(
    kind: str, memory: str, attributes: str, problem: str, flops: int | None, moved: int | None
) -> None:
    """By hand; what is not sure is None."""
    work = work_of(kind, "forward_inference", memory, attributes, problem)
    assert (work.flops, work.bytes) == (flops, moved)


def test_work_grows_with_the_batch_and_weights_are_read_once() -> None:
    """A convolution of 8 samples: 8 times the FLOPs and the values, and the same 32 weights: 4 x (8 x (64 + 128) + 32)
    bytes, so that its intensity is higher than that of one sample."""
    one, eight = (
        work_of(
            "convolution",
            "forward_inference",
            F32,
            "",
            f"mb{batch}_ic4oc8_ih4oh4kh1sh1dh0ph0_iw4ow4kw1sw1dw0pw0",
        )
        for batch in (1, 8)
    )
    assert (one.flops, eight.flops) == (2 * 128 * 4, 8 * 2 * 128 * 4)
    assert (one.bytes, eight.bytes) == (4 * (64 + 32 + 128), 4 * (8 * (64 + 128) + 32))


def test_the_type_that_is_calculated_in() -> None:
    """That of the weights, unless a line says that less is enough; what multiplies nothing has none."""

    def told(kind: str, memory: str, attributes: str, problem: str) -> str | None:
        return work_of(kind, "forward_inference", memory, attributes, problem).data_type

    quantised = "src:u8::blocked:ab::f0 wei:s8::blocked:ab::f0 dst:f32::blocked:ab::f0"
    assert told("matmul", quantised, "", "2x8:8x16") == "s8"
    assert told("matmul", F32, "", "2x8:8x16") == "f32"
    assert told("matmul", F32, "attr-scratchpad:user attr-fpmath:bf16", "2x8:8x16") == "bf16"
    assert told("matmul", F32, "attr-fpmath:strict", "2x8:8x16") == "f32"
    assert told("reorder", "src:f32::blocked:ab::f0 dst:u8::blocked:ab::f0", "", "3x5") is None


def test_lines_that_are_not_understood_end_nothing() -> None:
    """Without a time it is no primitive; without a problem that is known its work is not. Times are off by 1 us."""
    broken = [
        LINE.replace(",2.5", ",2.5onednn"),
        LINE.replace("1795697832804.387939", "x"),
        LINE.replace("wei:f32:a:blocked:Acdb16a::f0", "wei"),
    ]
    (found,) = primitives_of(broken)
    assert (found.attributes["flops"], found.attributes["bytes"]) == (None, None)
    assert found.attributes["error_us"] == 1.0 and found.attributes["data_type"] is None


def test_what_others_print_meanwhile_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """Lines of oneDNN are kept, another's line stands in the output; the next time begins anew."""
    output = StandardOutput()
    for _ in range(2):
        output.start()
        os.write(1, f"hello\n{LINE}\n".encode())
        assert output.stop() == [LINE]
    output.start()
    os.write(1, b"a run that fails\n")
    output.start()
    assert output.stop() == []
    assert capfd.readouterr().out == "hello\nhello\na run that fails\n"
