"""Read an HLO module: its live instructions, a loop's steps, and its multiply-accumulates.

Only HLO has every shape, and every library function inlined. TensorFlow's profiler silently misses
operations in library functions, such as grouped convolutions.

Computations, instructions and shapes are messages of XLA's protobuf, tried on TensorFlow 2.21.0 and
JAX 0.10.2.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from xla_sweeps.backends.keras.mac_count import MacCount
from xla_sweeps.backends.keras.messages import TYPES, ModuleMessage

STEPS_LIMIT = 10_000
"""Loops of more steps are not followed to their end."""

NO_WORK = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"})
"""Operations for which nothing runs."""

_BODIES = frozenset({"while", "call", "conditional"})
"""Operations whose computations run as operations of their own."""

Value = int | tuple[Any, ...] | None
"""An integer, a truth value, a tuple of values, or None for what is not known."""


class Module:
    """The computations of a module."""

    def __init__(self, content: Any) -> None:
        self._computations = {each.id: each for each in content.computations}
        self.instructions = {
            each.id: each
            for computation in content.computations
            for each in computation.instructions
        }
        self.entry = self._computations[content.entry_computation_id]
        self._stacks = content.stack_frame_index

    @classmethod
    def parse(cls, content: bytes) -> Module:
        """The module of a serialized `HloModuleProto`."""
        return cls(ModuleMessage.FromString(content))

    def root(self, computation: Any) -> Any:
        """The instruction that a computation returns."""
        return self.instructions[computation.root_id]

    def operands(self, instruction: Any) -> list[Any]:
        """The instructions that this one reads, in order."""
        return [self.instructions[number] for number in instruction.operand_ids]

    def computations_of(self, instruction: Any) -> list[Any]:
        """The computations that an instruction calls; of a loop its body and its condition."""
        return [self._computations[number] for number in instruction.called_computation_ids]

    def frames(self, instruction: Any) -> list[tuple[str, int]]:
        """Files and lines of Python that made an instruction, the innermost last."""
        frames, number = list[tuple[str, int]](), instruction.metadata.stack_frame_id
        while number:
            frame = self._stacks.stack_frames[number - 1]
            place = self._stacks.file_locations[frame.file_location_id - 1]
            frames.append((self._stacks.file_names[place.file_name_id - 1], place.line))
            number = frame.parent_frame_id
        return frames[::-1]

    def live(self, computation: Any) -> Iterator[Any]:
        """The instructions that the root of a computation needs."""
        todo, seen = [self.root(computation)], {computation.root_id}
        while todo:
            instruction = todo.pop()
            yield instruction
            for operand in self.operands(instruction):
                if operand.id not in seen:
                    seen.add(operand.id)
                    todo.append(operand)

    def running(self) -> Iterator[Any]:
        """The instructions that run as operations of their own, those of loops once.

        Those are in the entry, and in what loops, conditions and calls run.
        """
        todo, seen = [self.entry], {self.entry.id}
        while todo:
            for instruction in self.live(todo.pop()):
                if instruction.opcode in _BODIES:
                    bodies = [
                        body for body in self.computations_of(instruction) if body.id not in seen
                    ]
                    seen.update(body.id for body in bodies)
                    todo += bodies
                elif instruction.opcode not in NO_WORK:
                    yield instruction

    def values(self, parameters: Sequence[Value] | None) -> Callable[[int], Value]:
        """Values of scalars and tuples in a computation with these parameters, by their ids."""

        @cache
        def value(number: int) -> Value:
            instruction = self.instructions[number]
            if instruction.opcode == "parameter":
                place = instruction.parameter_number
                return parameters[place] if parameters and place < len(parameters) else None
            if instruction.shape.dimensions:
                return None
            if instruction.opcode == "constant":
                return _constant(instruction.literal)
            values = list(map(value, instruction.operand_ids))
            if instruction.opcode == "call":
                return self.result(self.computations_of(instruction)[0], values)
            return _result(instruction, values)

        return value

    def result(self, computation: Any, parameters: Sequence[Value]) -> Value:
        """Value that a computation returns, as far as that is known."""
        return self.values(parameters)(computation.root_id)

    def follow(self, loop: Any, state: Value) -> tuple[int | None, Value]:
        """Follow a `while`: the number of its steps, and what stays the same in them.

        None is a number that cannot be known; in the tuple, what changes.
        """
        body, condition = self.computations_of(loop)
        same = state
        for steps in range(STEPS_LIMIT + 1):
            goes_on = self.result(condition, [state])
            if goes_on is None or not goes_on:
                return (None if goes_on is None else steps), same
            state = self.result(body, [state])
            same = _common(same, state)
        return None, same


def dtype_of(shape: Any) -> str:
    """The type of an array's elements, as XLA writes it: `f32`."""
    return str(TYPES.values_by_number[shape.element_type].name).lower()


def size_bytes(shape: Any) -> int:
    """Bytes of an array, or of all arrays of a tuple together; each element has whole bytes."""
    if shape.tuple_shapes:
        return sum(map(size_bytes, shape.tuple_shapes))
    dtype = dtype_of(shape)
    bits = re.search(r"\d+", dtype)
    element_bytes = max(1, int(bits[0]) // 8) if bits else int(dtype == "pred")
    return element_bytes * int(math.prod(shape.dimensions))


def _constant(literal: Any) -> Value:
    kinds = (literal.preds, literal.s32s, literal.s64s, literal.u32s, literal.u64s)
    return next((numbers[0] for numbers in kinds if numbers), None)


_LARGEST = 2**31
"""Counters of loops are 32-bit integers; what lies beyond is not known."""

_PASSED_ON = frozenset({"reshape", "copy", "convert", "bitcast", "optimization-barrier"})

_COMPUTED: dict[str, Callable[..., int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "minimum": min,
    "maximum": max,
    "and": operator.and_,
    "or": operator.or_,
    "not": operator.not_,
    "select": lambda condition, one, other: one if condition else other,
}


def _result(instruction: Any, values: Sequence[Value]) -> Value:
    """Value of an operation for these operands; None where that is not known."""
    operation = instruction.opcode
    if operation == "tuple":
        return tuple(values)
    if operation == "get-tuple-element" and isinstance(values[0], tuple):
        element: Value = values[0][instruction.tuple_index]
        return element
    if operation in _PASSED_ON:
        return values[0]
    for decided, by in (("and", False), ("or", True)):
        if operation == decided and any(value is by for value in values):
            return by
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) < len(values):
        return None
    if operation == "compare":
        return bool(getattr(operator, instruction.comparison_direction.lower())(*numbers))
    if operation not in _COMPUTED:
        return None
    result = _COMPUTED[operation](*numbers)
    return result if abs(result) < _LARGEST else None


def _common(left: Value, right: Value) -> Value:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return tuple(map(_common, left, right))
    return left if left == right else None


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
        if own := _OWN.get(instruction.opcode):
            shapes = [operand.shape for operand in module.operands(instruction)]
            count.by_type += Counter({dtype_of(shapes[0]): own(instruction, *shapes)})
        elif instruction.called_computation_ids:
            count.add(_of_called(module, instruction, list(map(value, instruction.operand_ids))))
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
