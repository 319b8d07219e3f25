"""Count multiply-accumulates in the text of an unoptimized HLO module. Pure.

Only HLO has every shape, and every library function inlined. TensorFlow's profiler silently misses
operations in library functions, such as grouped convolutions.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from xla_sweeps.backends.tensorflow.hlo import Computation, Instruction, Module, Value

_TYPED_OPERAND = re.compile(r"([a-z]\w*)\[([\d,]*)\]")
_LABELS = re.compile(r"dim_labels=(?P<lhs>\w+)_(?P<rhs>\w+)->(?P<out>\w+)")
_DILATION = re.compile(r"\blhs_dilate=(?P<dilation>[\dx]+)")
_GROUPS = re.compile(r"\bbatch_group_count=(?P<count>\d+)")
_CONTRACTING = re.compile(r"lhs_contracting_dims=\{(?P<dimensions>[\d,]*)\}")

AT_LEAST_NOTE = "at least: how often a loop runs is not known, so its body is counted once"

Shape = tuple[int, ...]


class UncountableError(ValueError):
    """A convolution or dot that this parser cannot read, so no count is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MacCount:
    """Multiply-accumulates of one execution of a module, whole batch included.

    Attributes:
        by_type: by the type of the first operand, as XLA writes it; padding positions count, as in
            published figures.
        at_least: whether a loop whose number of steps is not known is counted once.
    """

    at_least: bool = False
    by_type: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """All multiply-accumulates."""
        return self.by_type.total()

    def __add__(self, other: MacCount) -> MacCount:
        return MacCount(
            at_least=self.at_least or other.at_least,
            by_type=self.by_type + other.by_type,
        )

    def times(self, number: int | None) -> MacCount:
        """Count of `number` executions; None where the number is not known."""
        factor = 1 if number is None else number
        scaled = self._scaled(lambda count: count * factor)
        return replace(scaled, at_least=self.at_least or (number is None and self.total > 0))

    def of_each(self, samples: int) -> MacCount:
        """Count of one sample of a batch."""
        return self._scaled(lambda count: count // samples)

    def _scaled(self, scale: Callable[[int], int]) -> MacCount:
        scaled = Counter({name: scale(count) for name, count in self.by_type.items()})
        return replace(self, by_type=scaled)


def count_macs(hlo_text: str) -> MacCount:
    """Count a module's multiply-accumulates.

    Only what the result depends on counts: Keras traces the first step of a recurrent layer twice.
    A loop's body counts as often as it runs, and the costliest branch of a condition once.

    A convolution needs |output| x prod(kernel dimensions but the output features); the kernel's
    input-feature dimension is already per group, so grouped and depthwise convolutions come out
    right. Zeros inserted by lhs dilation (transposed convolutions) do not count. A dot needs
    |output| x prod(contracted dimensions).

    Raises:
        UncountableError: a convolution or dot cannot be read.
    """
    module = Module(hlo_text)
    return _of_computation(module, module.entry, None) if module.computations else MacCount()


def _of_computation(module: Module, name: str, parameters: Sequence[Value] | None) -> MacCount:
    computation, count = module.computations[name], MacCount()
    value = module.values(name, parameters)
    for instruction in computation.live():
        if own := _OWN.get(instruction.operation):
            kind, _ = _operand(computation, instruction, 0)
            count += MacCount(by_type=Counter({kind: own(computation, instruction)}))
        elif instruction.called:
            given = [value(operand) for operand in computation.operands(instruction)]
            count += _of_called(module, instruction, given)
    return count


def _of_called(module: Module, instruction: Instruction, given: Sequence[Value]) -> MacCount:
    if instruction.operation == "while":
        steps, same = module.follow(instruction, given[0])
        return _of_computation(module, instruction.called["body"][0], [same]).times(
            steps
        ) + _of_computation(module, instruction.called["condition"][0], [same]).times(
            None if steps is None else steps + 1
        )
    called = [name for names in instruction.called.values() for name in names]
    if instruction.operation == "call":
        return _of_computation(module, called[0], given)
    counts = [_of_computation(module, name, None) for name in called]
    if instruction.operation == "conditional":
        return max(counts, key=lambda count: count.total)
    return sum((count.times(None) for count in counts), MacCount())


def _convolution(computation: Computation, instruction: Instruction) -> int:
    labels = _LABELS.search(instruction.attributes)
    _, kernel = _operand(computation, instruction, 1)
    if labels is None or instruction.shape is None or len(labels["rhs"]) != len(kernel):
        raise UncountableError(f"cannot read: {instruction.line[:200]}")
    per_output = math.prod(
        size for label, size in zip(labels["rhs"], kernel, strict=True) if label != "o"
    )
    dilation = _DILATION.search(instruction.attributes)
    zeros = math.prod(int(step) for step in dilation["dilation"].split("x")) if dilation else 1
    groups = _GROUPS.search(instruction.attributes)
    if groups and int(groups["count"]) != 1:
        # The batch dimension is contracted in groups: only in gradients of grouped convolutions.
        raise UncountableError(f"batch groups: {instruction.line[:200]}")
    return math.prod(instruction.shape) * per_output // zeros


def _dot(computation: Computation, instruction: Instruction) -> int:
    contracting = _CONTRACTING.search(instruction.attributes)
    _, left = _operand(computation, instruction, 0)
    if contracting is None or instruction.shape is None:
        raise UncountableError(f"cannot read: {instruction.line[:200]}")
    return math.prod(instruction.shape) * math.prod(
        left[index] for index in _sizes(contracting["dimensions"])
    )


_OWN = {"convolution": _convolution, "dot": _dot}
"""The operations that multiply and accumulate."""


def _operand(
    computation: Computation, instruction: Instruction, position: int
) -> tuple[str, Shape]:
    """Type and shape of an operand, given before its name or in the name's definition."""
    typed = _TYPED_OPERAND.findall(instruction.arguments)
    if len(typed) > position:
        return typed[position][0], _sizes(typed[position][1])
    names = computation.operands(instruction)
    operand = computation.instructions[names[position]] if position < len(names) else None
    if operand is None or operand.shape is None:
        raise UncountableError(f"operand {position} has no known shape: {instruction.line[:200]}")
    return operand.dtype, operand.shape


def _sizes(text: str) -> Shape:
    return tuple(int(size) for size in text.split(",") if size)
