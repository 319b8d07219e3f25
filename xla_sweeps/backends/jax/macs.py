"""Count multiply-accumulates in what JAX traced."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import jax

from xla_sweeps.backends.keras.mac_count import MacCount

_TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
"""Types as XLA writes them; integers have their first letter and their bits."""


def count_macs(jaxpr: Any) -> MacCount:
    """Count the multiply-accumulates of a jaxpr, whole batch included.

    A scan's body counts as often as it runs, a while loop's once (`at_least`), and the costliest
    branch of a condition once. Zeros inserted by dilation of the input do not count.
    """
    count = MacCount()
    for equation in jaxpr.eqns:
        name, given = equation.primitive.name, equation.params
        if own := _OWN.get(name):
            dtype = equation.invars[0].aval.dtype
            written = _TYPES.get(dtype.name, f"{dtype.kind}{8 * dtype.itemsize}".replace("i", "s"))
            count.by_type += Counter({written: own(equation)})
            continue
        parts = [count_macs(part) for part in inside(given)]
        if name == "cond" and parts:
            parts = [max(parts, key=lambda part: part.total)]
        times = given["length"] if name == "scan" else None if name == "while" else 1
        for part in parts:
            count.add(part, times)
    return count


def inside(params: Any) -> list[Any]:
    """The programs among an equation's parameters."""
    programs = (getattr(each, "jaxpr", each) for each in jax.tree.leaves(list(params.values())))
    return [program for program in programs if hasattr(program, "eqns")]


def _convolution(equation: Any) -> int:
    kernel = equation.invars[1].aval.shape
    features = kernel[equation.params["dimension_numbers"].rhs_spec[0]]
    zeros = math.prod(equation.params["lhs_dilation"])
    return int(math.prod(equation.outvars[0].aval.shape) * math.prod(kernel) // features // zeros)


def _dot(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    sums = math.prod(left[index] for index in contracted)
    return int(math.prod(equation.outvars[0].aval.shape) * sums)


_OWN = {"conv_general_dilated": _convolution, "dot_general": _dot}
"""The operations that multiply and accumulate."""
