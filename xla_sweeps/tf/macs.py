"""Count multiply-accumulates in the text of an unoptimized HLO module. Pure.

Only HLO has every shape, and every library function inlined. TensorFlow's profiler silently misses
operations in library functions, such as grouped convolutions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

_DEFINITION = re.compile(
    r"^\s*(?:ROOT\s+)?%?(?P<name>[\w.\-]+)\s*=\s*\(?(?P<type>[a-z]\w*)\[(?P<shape>[\d,]*)\]"
)

_CALL = re.compile(
    r"\s(?P<operation>convolution|dot)\((?P<operands>.*?)\)\s*,\s*(?P<attributes>.*)$"
)

_TYPED_OPERAND = re.compile(r"[a-z]\w*\[(?P<shape>[\d,]*)\]")
_LABELS = re.compile(r"dim_labels=(?P<lhs>\w+)_(?P<rhs>\w+)->(?P<out>\w+)")
_DILATION = re.compile(r"\blhs_dilate=(?P<dilation>[\dx]+)")
_GROUPS = re.compile(r"\bbatch_group_count=(?P<count>\d+)")
_CONTRACTING = re.compile(r"lhs_contracting_dims=\{(?P<dimensions>[\d,]*)\}")

LOOP_NOTE = "loop bodies are counted once"

Shape = tuple[int, ...]


class UncountableError(ValueError):
    """A convolution or dot that this parser cannot read, so no count is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MacCount:
    """Multiply-accumulates of one execution of a module, whole batch included.

    Attributes:
        convolutions: in convolutions; padding positions count, as in published figures.
        dots: in matrix multiplications, including attention.
        operations: number of convolutions and dots.
        loops: whether there is a while loop; its body counts once, however often it runs.
    """

    convolutions: int
    dots: int
    operations: int
    loops: bool

    @property
    def total(self) -> int:
        """All multiply-accumulates."""
        return self.convolutions + self.dots


def count_macs(hlo_text: str) -> MacCount:
    """Count a module's multiply-accumulates.

    A convolution needs |output| x prod(kernel dimensions but the output features); the kernel's
    input-feature dimension is already per group, so grouped and depthwise convolutions come out
    right. Zeros inserted by lhs dilation (transposed convolutions) do not count. A dot needs
    |output| x prod(contracted dimensions).

    Raises:
        UncountableError: a convolution or dot cannot be read.
    """
    shapes: dict[str, Shape] = {}
    convolutions = dots = operations = 0
    loops = False
    for line in hlo_text.splitlines():
        definition = _DEFINITION.match(line)
        if not definition:
            continue
        output = _shape(definition["shape"])
        shapes[definition["name"]] = output
        loops = loops or " while(" in line
        call = _CALL.search(line)
        if call is None:
            if " convolution(" in line or " dot(" in line:
                raise UncountableError(f"cannot read: {line.strip()[:200]}")
            continue
        operations += 1
        if call["operation"] == "convolution":
            convolutions += _convolution(output, call["operands"], call["attributes"], shapes, line)
        else:
            dots += _dot(output, call["operands"], call["attributes"], shapes, line)
    return MacCount(convolutions=convolutions, dots=dots, operations=operations, loops=loops)


def _convolution(
    output: Shape, operands: str, attributes: str, shapes: Mapping[str, Shape], line: str
) -> int:
    labels = _LABELS.search(attributes)
    kernel = _operand(operands, 1, shapes, line)
    if labels is None or len(labels["rhs"]) != len(kernel):
        raise UncountableError(f"cannot read: {line.strip()[:200]}")
    per_output = math.prod(
        size for label, size in zip(labels["rhs"], kernel, strict=True) if label != "o"
    )
    dilation = _DILATION.search(attributes)
    zeros = math.prod(int(step) for step in dilation["dilation"].split("x")) if dilation else 1
    groups = _GROUPS.search(attributes)
    if groups and int(groups["count"]) != 1:
        # The batch dimension is contracted in groups: only in gradients of grouped convolutions.
        raise UncountableError(f"batch groups: {line.strip()[:200]}")
    return math.prod(output) * per_output // zeros


def _dot(
    output: Shape, operands: str, attributes: str, shapes: Mapping[str, Shape], line: str
) -> int:
    contracting = _CONTRACTING.search(attributes)
    left = _operand(operands, 0, shapes, line)
    if contracting is None:
        raise UncountableError(f"cannot read: {line.strip()[:200]}")
    return math.prod(output) * math.prod(left[index] for index in _shape(contracting["dimensions"]))


def _operand(operands: str, position: int, shapes: Mapping[str, Shape], line: str) -> Shape:
    """Shape of an operand, given before its name or in the name's definition."""
    typed = _TYPED_OPERAND.findall(operands)
    if len(typed) > position:
        return _shape(typed[position])
    names = [name.strip().lstrip("%") for name in operands.split(",")]
    if position < len(names) and names[position] in shapes:
        return shapes[names[position]]
    raise UncountableError(f"operand {position} has no known shape: {line.strip()[:200]}")


def _shape(text: str) -> Shape:
    return tuple(int(size) for size in text.split(",") if size)
