"""HLO modules for tests, written instruction by instruction."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xla_sweeps.backends.keras.hlo import Module
from xla_sweeps.backends.keras.messages import TYPES, ModuleMessage, message_class

ShapeMessage = message_class(TYPES.file.pool, "Shape")


@dataclass(frozen=True, kw_only=True)
class Op:
    """An instruction; `fields` are those of an instruction."""

    name: str
    shape: str
    opcode: str
    operands: Sequence[str]
    called: Sequence[str]
    fields: Mapping[str, Any]


def op(
    name: str, shape: str, opcode: str, *operands: str, called: Sequence[str] = (), **fields: Any
) -> Op:
    """An instruction; its shape as XLA writes it: `f32[2,3]`, `(f32[2], s32[])`."""
    return Op(
        name=name, shape=shape, opcode=opcode, operands=operands, called=called, fields=fields
    )


def parameter(name: str, shape: str, number: int = 0) -> Op:
    """A parameter of a computation."""
    return op(name, shape, "parameter", parameter_number=number)


def element(name: str, shape: str, of: str, index: int) -> Op:
    """An element of a tuple."""
    return op(name, shape, "get-tuple-element", of, tuple_index=index)


def constant(name: str, value: int) -> Op:
    """A scalar of 32 bits."""
    return op(name, "s32[]", "constant", literal={"s32s": [value]})


def dot(name: str, shape: str, left: str, right: str, *, contracted: int = 1) -> Op:
    """A product that sums over one dimension of the left operand."""
    numbers = {"lhs_contracting_dimensions": [contracted]}
    return op(name, shape, "dot", left, right, dot_dimension_numbers=numbers)


def convolution(
    name: str,
    shape: str,
    left: str,
    kernel: str,
    *,
    labels: str,
    dilation: int = 1,
    groups: int = 1,
) -> Op:
    """A convolution in two dimensions; `labels` name those of the kernel: `01io`."""
    return op(
        name,
        shape,
        "convolution",
        left,
        kernel,
        window={"dimensions": [{"base_dilation": dilation}] * 2},
        convolution_dimension_numbers={
            "kernel_input_feature_dimension": labels.index("i"),
            "kernel_output_feature_dimension": labels.index("o"),
        },
        feature_group_count=groups,
    )


def product(
    write: Callable[..., Op], shape: str, left: str, right: str, **options: Any
) -> list[Op]:
    """Two parameters of these shapes and their product, named as what writes it: `dot`."""
    name = write.__name__
    names = f"{name}.left", f"{name}.right"
    return [
        parameter(names[0], left),
        parameter(names[1], right, 1),
        write(name, shape, *names, **options),
    ]


def module(**computations: Sequence[Op]) -> Module:
    """A module; the last computation is its entry, the last instruction of each the root."""
    return Module(message(**computations))


def message(**computations: Sequence[Op]) -> Any:
    """The message of the same module."""
    content, numbers = ModuleMessage(), dict[str, int]()
    ids = {name: number for number, name in enumerate(computations, 1)}
    for name, instructions in computations.items():
        computation = content.computations.add(id=ids[name], name=name)
        for each in instructions:
            computation.root_id = numbers[each.name] = len(numbers) + 1
            computation.instructions.add(
                id=numbers[each.name],
                name=each.name,
                opcode=each.opcode,
                shape=shape_of(each.shape),
                operand_ids=[numbers[operand] for operand in each.operands],
                called_computation_ids=[ids[called] for called in each.called],
                **each.fields,
            )
        content.entry_computation_id = computation.id
    return content


def shape_of(text: str) -> Any:
    """A shape from how XLA writes it, without layouts."""
    arrays = [
        ShapeMessage(
            element_type=TYPES.values_by_name[dtype.upper()].number,
            dimensions=[int(size) for size in sizes.split(",") if size],
        )
        for dtype, sizes in re.findall(r"([a-z]\w*)\[([\d,]*)\]", text)
    ]
    if not text.startswith("("):
        return arrays[0]
    return ShapeMessage(element_type=TYPES.values_by_name["TUPLE"].number, tuple_shapes=arrays)
