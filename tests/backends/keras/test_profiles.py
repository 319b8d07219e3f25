"""Traces of one H100, read without a GPU: kernels, what they are part of, and tensor cores.

`tests/data/profiles` has one call of each mode from the profilers of TensorFlow 2.21.0 and JAX
0.11.2, both with TF32, and of PyTorch 2.11.0 without: `sum(x + y * z)`, and ResNet50 at batch 8.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest
from paths import DATA

from xla_sweeps.backends.keras.explain.events import Event, OpWork
from xla_sweeps.backends.keras.explain.kernels import kind_of, on_tensor_cores
from xla_sweeps.backends.keras.explain.program import work_by_name
from xla_sweeps.backends.keras.explain.trace import Call, fastest_call, mode_time
from xla_sweeps.backends.keras.hlo import Module
from xla_sweeps.backends.keras.xplane import Space
from xla_sweeps.backends.torch.trace import LAYER, read_trace
from xla_sweeps.report.terminal.explained_lines import WIDTH
from xla_sweeps.report.terminal.explanation import explanation_text
from xla_sweeps.schema.explanation import Explanation, Kind, ModeTime, Time
from xla_sweeps.schema.modes import Mode, mode_of


def content(name: str) -> bytes:
    return lzma.decompress((DATA / "profiles" / f"{name}.xz").read_bytes())


def timed(events: Sequence[Event], *modes: str, work: Mapping[str, OpWork]) -> list[ModeTime]:
    """The time of each of these modes of a trace."""
    return [mode_time(fastest_call(events, cast(Mode, mode), work)) for mode in modes]


def launches(mode: ModeTime) -> int:
    return sum(kernel.launched for kernel in mode.kernels)


def names(mode: ModeTime) -> set[str]:
    return {kernel.name for kernel in mode.kernels}


def test_tensorflows_kernels_of_a_sum_of_products_become_fewer_under_xla() -> None:
    events = list(Space(content("tensorflow_fusion.xplane.pb")).events())
    graph, xla = timed(events, "graph", "xla", work={})
    assert (launches(graph), launches(xla)) == (4, 2), "a sum takes two kernels"
    assert {"Mul_GPU_DT_FLOAT_DT_FLOAT_kernel", "AddV2_GPU_DT_FLOAT_DT_FLOAT_kernel"} < names(graph)
    assert names(xla) == {"input_reduce_fusion", "input_reduce_fusion_1"}
    assert set(xla.by_kind) == {Kind.REDUCTION}
    assert 0.02e-3 < sum(xla.by_kind.values()) < sum(graph.by_kind.values()) < 0.04e-3
    for mode in (graph, xla):
        parts = sum(mode.by_kind.values()) + mode.gaps_s + mode.host_s
        assert parts == pytest.approx(mode.call_s)


@pytest.mark.parametrize("name", ["tensorflow", "jax"])
def test_kernels_of_one_program_have_its_layers_and_use_tensor_cores(name: str) -> None:
    space = Space(content(f"{name}_xla.xplane.pb"))
    events = list(space.events())
    if name == "jax":
        (program,) = space.programs({event.program for event in events}).values()
    else:
        program = space.program("inference_call_12597")
    work = work_by_name(Module(program), lambda name: name, lambda name: f"net.py:{name}")
    (xla,) = timed(events, "xla" if name == "tensorflow" else "jax.xla", work=work)
    assert launches(xla) == 171
    kinds = {Kind.CONVOLUTION, Kind.PRODUCT, Kind.REDUCTION, Kind.ELEMENTWISE, Kind.COPY}
    assert kinds == set(xla.by_kind)
    first = xla.kernels[0]
    assert (first.kind, first.tensor_cores) == (Kind.CONVOLUTION, True)
    assert "conv" in first.layers[0]
    assert first.lines[0] == f"net.py:{first.layers[0]}"
    in_kernels_s = sum(kernel.seconds for kernel in xla.kernels)
    assert in_kernels_s == pytest.approx(sum(xla.by_kind.values()), rel=0.06), "some run at once"
    products = [xla.products_s(tensor) for tensor in (True, False, None)]
    assert products[0] > 0.9 * sum(products)
    assert products[1] == 0


def test_kernels_of_a_graph_are_of_its_nodes() -> None:
    events = list(Space(content("tensorflow_graph.xplane.pb")).events())
    work = {
        "resnet50_1/conv1_conv_1/convolution": OpWork(Kind.CONVOLUTION, {"conv1 (Conv2D)": 1.0})
    }
    (graph,) = timed(events, "graph", work=work)
    assert launches(graph) == 585
    layer = [kernel for kernel in graph.kernels if "conv1 (Conv2D)" in kernel.layers]
    assert {kernel.kind for kernel in layer} == {Kind.CONVOLUTION, Kind.COPY}
    assert any("Memset" in kernel.name and not kernel.launched for kernel in graph.kernels)


def test_jax_runs_a_program_for_each_operation_or_one_for_all() -> None:
    space = Space(content("jax_fusion.xplane.pb"))
    events = list(space.events())
    programs = space.programs({event.program for event in events})
    assert {name.partition("(")[0] for name in programs} == {
        *("jit_multiply", "jit_add", "jit__reduce_sum", "jit_fused"),
    }
    work = {
        f"{name}/{operation}": part
        for name, program in programs.items()
        for operation, part in work_by_name(Module(program), lambda _: "").items()
    }
    eager, xla = timed(events, "jax.eager", "jax.xla", work=work)
    assert (launches(eager), launches(xla)) == (4, 2)
    assert set(eager.by_kind) == {Kind.ELEMENTWISE, Kind.REDUCTION}
    assert all("probe_g.py:163" in line for kernel in xla.kernels for line in kernel.lines)


def test_a_kernel_of_pytorch_has_the_layer_and_the_operation_that_started_it() -> None:
    trace = json.loads(content("torch_fusion.json"))
    spans = trace["traceEvents"]
    multiply = next(span for span in spans if span["name"] == "aten::mul")
    spans.append({**multiply, "name": f"{LAYER}scale (Multiply)", "cat": "user_annotation"})
    events, work = read_trace(trace)
    eager, compiled = timed(events, "torch.eager", "torch.compile", work=work)
    assert (launches(eager), launches(compiled)) == (3, 2)
    layers = {kernel.layers for kernel in eager.kernels}
    assert layers == {(), ("scale (Multiply)",)}
    assert eager.by_kind.keys() == {Kind.ELEMENTWISE, Kind.REDUCTION, Kind.COPY}
    assert names(compiled) == {"triton_red_fused_add_mul_sum_0", "triton_per_fused_add_mul_sum_1"}


def test_what_excludes_tensor_cores_is_named_within_eighty_columns() -> None:
    events, work = read_trace(json.loads(content("torch_exported.json")))
    exported = timed(events, "torch.exported", work=work)[0]
    assert launches(exported) == 289
    assert exported.products_s(True) == 0
    assert exported.products_s(False) > 20 * exported.products_s(None)
    modes = (replace(exported, mode="torch_eager"), replace(exported, mode="torch_export"))
    both = Time(modes=modes, lost=(), plain=True, layered=False)
    text = explanation_text(Explanation(model="net", device="GPU", time=both))
    assert max(map(len, text.splitlines())) <= WIDTH
    words = " ".join(text.split())
    assert "kernels of a call: 289 (eager), 289 (exported)" in words
    assert "tensor cores compute 0 % of exported's convolutions and products: " in words
    assert "float32 without TF32 excludes them" in words
    assert "loses" not in words


@pytest.mark.parametrize(
    ("name", "kind", "tensor_cores"),
    [
        ("cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4", Kind.PRODUCT, True),
        ("sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_cublas", Kind.PRODUCT, True),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_nn", Kind.PRODUCT, True),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", Kind.PRODUCT, True),
        ("ampere_sgemm_128x64_nn", Kind.PRODUCT, False),
        ("cutlass_80_simt_sgemm_128x32_8x5_nn_align1", Kind.PRODUCT, False),
        ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_x_ffma_y", Kind.CONVOLUTION, False),
        ("gemm_fusion_dot", Kind.PRODUCT, None),
        ("loop_add_fusion", Kind.ELEMENTWISE, False),
        ("input_reduce_fusion", Kind.REDUCTION, False),
        ("triton_poi_fused_convolution_relu_3", Kind.ELEMENTWISE, False),
        ("void cudnn::ops::nchwToNhwcKernel<float>(int)", Kind.COPY, False),
        ("void conv_depthwise2d_forward_kernel<3>(int)", Kind.DEPTHWISE, False),
    ],
)
def test_a_kernels_name_tells_its_work_and_its_cores(
    name: str, kind: Kind, tensor_cores: bool | None
) -> None:
    assert kind_of(name) is kind
    assert on_tensor_cores(name, kind) is tensor_cores


def test_what_turns_the_layout_around_a_convolution_is_no_time_of_the_convolution() -> None:
    """VGG16 on an H200: XLA turns each convolution's layout, graph mode never does."""
    names = {
        "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_ffma_cudnn": 5e-3,
        "void pointwise_mult_and_sum_complex<float2, 8, 4>(float2*, int)": 3e-3,
        "void fft2d_r2c_64x64<float>(float2*, float const*, int)": 1e-3,
        "void flip_filter<float, float>(float*, float const*, int)": 0.5e-3,
        "void cudnn::engines_precompiled::nhwcToNchwKernel<float>(float const*)": 2e-3,
    }
    operations, start_s = [], 0.0
    for name, length_s in names.items():
        operations.append(Event("conv", start_s, start_s + length_s, on_gpu=True, kernel=name))
        start_s += length_s
    work = {"conv": OpWork(Kind.CONVOLUTION, {"block1_conv2 (Conv2D)": 1.0})}
    whole = Event("xla_sweeps:xla", 0.0, start_s)
    time = mode_time(
        Call(mode=mode_of("xla"), traced=1, whole=whole, operations=operations, work=work)
    )
    assert time.by_kind == pytest.approx({Kind.CONVOLUTION: 9e-3, Kind.COPY: 2.5e-3})
    assert time.products_s(False) == pytest.approx(9e-3), "all of it in the plain cores"
    both = Time(modes=(replace(time, mode="graph", kernels=()), time), lost=())
    text = explanation_text(Explanation(model="net", device="GPU", time=both))
    assert "1 kernel of XLA turns the layout around convolutions: 2.00 of 11.50 ms" in text
    assert "of graph turn" not in text
