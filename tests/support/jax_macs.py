"""Print the multiply-accumulates of programs of JAX, by their names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from xla_sweeps.backends.jax.macs import count_macs

SIDE = jnp.ones((4, 4))

IMAGES = jnp.ones((2, 8, 8, 6))


def _convolved(groups: int) -> Callable[[Any], Any]:
    kernel = jnp.ones((3, 3, 6 // groups, 12))
    return lambda images: lax.conv_general_dilated(
        images,
        kernel,
        (1, 1),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


PROGRAMS: Mapping[str, tuple[Callable[[Any], Any], Any]] = {
    "dot": (lambda side: side @ side, SIDE),
    "jit": (jax.jit(lambda side: side @ side), SIDE),
    "convolution": (_convolved(1), IMAGES),
    "grouped": (_convolved(3), IMAGES),
    "scan": (lambda side: lax.scan(lambda c, _: (c @ side, None), side, length=5)[0], SIDE),
    "while": (lambda side: lax.while_loop(lambda c: c[0, 0] < 9, lambda c: c @ side, side), SIDE),
}

if __name__ == "__main__":
    counts = {
        name: count_macs(jax.make_jaxpr(program)(given))
        for name, (program, given) in PROGRAMS.items()
    }
    print(json.dumps({name: [each.total, each.at_least] for name, each in counts.items()}))
