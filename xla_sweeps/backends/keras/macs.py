"""Count multiply-accumulates in an unoptimized HLO module.

Only HLO has every shape, and every library function inlined. TensorFlow's profiler silently misses
operations in library functions, such as grouped convolutions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from xla_sweeps.backends.keras.hlo import Module, Value, dtype_of
from xla_sweeps.backends.keras.mac_count import MacCount


def count_macs(module: Module) -> MacCount:
    """Count a module's multiply-accumulates.

    Only what the result depends on counts: Keras traces the first step of a recurrent layer twice.
    A loop's body counts as often as it runs, and the costliest branch of a condition once.

    A convolution needs |output| x prod(kernel dimensions but the output features); the kernel's
    input-feature dimension is already per group, so grouped and depthwise convolutions come out
    right. Zeros inserted by dilation of the input (transposed convolutions) do not count. A dot
    needs |output| x prod(contracted dimensions).
    """
    return _of_computation(module, module.entry, None)


def _of_computation(
    module: Module, computation: Any, parameters: Sequence[Value] | None
) -> MacCount:
    count = MacCount()
    value = module.values(parameters)
    for instruction in module.live(computation):
        operands = module.operands(instruction)
        if own := _OWN.get(instruction.opcode):
            shapes = [operand.shape for operand in operands]
            count.by_type += Counter({dtype_of(shapes[0]): own(instruction, *shapes)})
        elif instruction.called_computation_ids:
            count.add(_of_called(module, instruction, [value(operand) for operand in operands]))
    return count


def _of_called(module: Module, instruction: Any, given: Sequence[Value]) -> MacCount:
    called, count = module.computations_of(instruction), MacCount()
    if instruction.opcode == "call":
        return _of_computation(module, called[0], given)
    if instruction.opcode == "while":
        body, condition = called
        steps, same = module.follow(instruction, given[0])
        count.add(_of_computation(module, body, [same]), steps)
        looks = None if steps is None else steps + 1
        count.add(_of_computation(module, condition, [same]), looks)
        return count
    counts = [_of_computation(module, computation, None) for computation in called]
    if instruction.opcode == "conditional":
        return max(counts, key=lambda count: count.total)
    for part in counts:
        count.add(part, None)
    return count


def _convolution(instruction: Any, _: Any, kernel: Any) -> int:
    output_features = instruction.convolution_dimension_numbers.kernel_output_feature_dimension
    per_output = math.prod(kernel.dimensions) // kernel.dimensions[output_features]
    zeros = math.prod(dimension.base_dilation for dimension in instruction.window.dimensions)
    return int(math.prod(instruction.shape.dimensions) * per_output // zeros)


def _dot(instruction: Any, left: Any, _: Any) -> int:
    contracted = instruction.dot_dimension_numbers.lhs_contracting_dimensions
    sums = math.prod(left.dimensions[index] for index in contracted)
    return int(math.prod(instruction.shape.dimensions) * sums)


_OWN = {"convolution": _convolution, "dot": _dot}
"""The operations that multiply and accumulate."""
