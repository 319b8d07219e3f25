"""Kernels that a GPU ran: what each does, and whether it uses tensor cores, by its name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from xla_sweeps.backends.keras.explain.events import Event, OpWork
from xla_sweeps.schema.explanation import PRODUCTS, Kernel, Kind

_PLAIN = re.compile(r"simt|ffma|sgemm|dgemm|f32f32_f32f32_f32|engine_float|fft2d|mult_and_sum")
"""Names of libraries' kernels that compute in the plain cores."""

_TENSOR = re.compile(
    r"tensorop|tensor\d+x\d+|tf32|[hi]mma|gmma|nvjet|mma_|[sh](?:884|1688|16816)|bf16|f16f16|fp16"
)
"""Names of libraries' kernels that compute in tensor cores."""

_KINDS = (
    (re.compile("^triton_poi"), Kind.ELEMENTWISE),
    (re.compile("^triton_(?:red|per)"), Kind.REDUCTION),
    (re.compile("depthwise", re.I), Kind.DEPTHWISE),
    (re.compile("conv(?!ert)|fprop|[dw]grad|winograd|fft2d|mult_and_sum", re.I), Kind.CONVOLUTION),
    (re.compile("gemm|gemv|matmul|addmm|bmm|linear|dot|nvjet|cutlass", re.I), Kind.PRODUCT),
    (re.compile("reduc|softmax|pool|sort|topk|mean|sum(?!_op)|amax|amin", re.I), Kind.REDUCTION),
    (
        re.compile(
            "transpose|concat|copy|memset|memcpy|padding|gather|converttensor|shuffle|slice|fill|flip"
            "|nchwtonhwc|nhwctonchw",
            re.I,
        ),
        Kind.COPY,
    ),
)
"""Expressions that kernels are sorted by where nothing else tells what they do."""


def kind_of(name: str) -> Kind:
    """Main work of a kernel, by its name without its arguments."""
    name = name.partition(">(")[0]
    return next((kind for pattern, kind in _KINDS if pattern.search(name)), Kind.ELEMENTWISE)


def kind_within(kernel: str, kind: Kind) -> Kind:
    """Main work of a kernel that is part of an operation of a kind.

    Around a convolution or product a library runs others, which copy or add up.
    """
    own = kind_of(kernel)
    return own if kind in PRODUCTS and own in (Kind.COPY, Kind.REDUCTION) else kind


def on_tensor_cores(name: str, kind: Kind) -> bool | None:
    """True if a kernel computes in tensor cores; None if its name does not tell."""
    if kind not in PRODUCTS:
        return False
    if _PLAIN.search(name):
        return False
    return True if _TENSOR.search(name) else None


def kernels_of(events: Sequence[Event], work: Mapping[str, OpWork]) -> tuple[Kernel, ...]:
    """The kernels of a call by their names, those that take most time first."""
    by_name: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_name[event.kernel].append(event)
    kernels = []
    for name, ran in by_name.items():
        parts = [work[event.name] for event in ran]
        kind = kind_within(name, parts[0].kind)
        layers = dict.fromkeys(layer for part in parts for layer in part.layers if layer)
        kernels.append(
            Kernel(
                name=name,
                kind=kind,
                times=len(ran),
                seconds=sum(event.length_s for event in ran),
                tensor_cores=on_tensor_cores(name, kind),
                layers=tuple(layers),
                lines=tuple(dict.fromkeys(part.line for part in parts if part.line)),
            )
        )
    return tuple(sorted(kernels, key=lambda kernel: -kernel.seconds))
