"""Read XLA's programs of a model: the work before its optimizer, the operations after it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from xla_sweeps.backends.keras.explain.events import OpWork
from xla_sweeps.backends.keras.explain.roofline import bytes_of
from xla_sweeps.backends.keras.hlo import NO_WORK, Module, count_macs, size_bytes
from xla_sweeps.schema.explanation import Fusion, Kind, Program, Work
from xla_sweeps.worker.lines import innermost_line

LARGEST = 10
"""Fusions that are listed."""

LayerOf = Callable[[str], str]
"""Finds where an operation comes from, by its name in the program; "" for nowhere."""

_SLICES = frozenset({"slice", "dynamic-slice", "gather"})

_MOVES = _SLICES | {
    *("broadcast", "concatenate", "copy", "dynamic-update-slice", "iota", "pad", "reshape"),
    *("reverse", "transpose"),
}

_REDUCES = frozenset({"reduce", "reduce-window", "select-and-scatter", "sort"})

_LIBRARY_FUSION = re.compile(rb'"kind":"(__(?:onednn|ynn|cudnn|cublas)[^"]*)"')


def program_of(module: Module, layer_of: LayerOf) -> Program:
    """Count what a program does."""
    work = list(module.running())
    library = {each.id: name for each in work if (name := _library(each))}
    own = [part.opcode for each in work if each.id not in library for part in _parts(module, each)]
    alone = Counter(each.opcode for each in work)
    fusions = [
        Fusion(
            name=each.name,
            kind=_kind(module, each),
            operations=sum(1 for _ in _parts(module, each)),
            read_bytes=_read_bytes(module, each),
            written_bytes=size_bytes(each.shape),
            layers=tuple(name for name in _layers(module, each, layer_of) if name),
        )
        for each in work
        if each.opcode == "fusion" and each.id not in library
    ]
    fusions.sort(key=lambda fusion: -(fusion.read_bytes + fusion.written_bytes))
    return Program(
        operations=len(work),
        fusions=len(fusions),
        library=Counter(library.values()),
        convolutions=own.count("convolution"),
        dots=own.count("dot"),
        copies=alone["copy"],
        transposes=alone["transpose"],
        converts=alone["convert"],
        read_bytes=sum(_read_bytes(module, each) for each in work),
        written_bytes=sum(size_bytes(each.shape) for each in work),
        largest=tuple(fusions[:LARGEST]),
    )


def work_of(module: Module, inputs: Any) -> Work:
    """The least work of one call.

    Every parameter of the module that its result depends on is read once, and every result written
    once. Constants in the program do not count.
    """
    read = sum(
        size_bytes(instruction.shape)
        for instruction in module.live(module.entry)
        if instruction.opcode == "parameter"
    )
    given = bytes_of(inputs)
    count = count_macs(module)
    return Work(
        macs_by_type=dict(count.by_type),
        macs_at_least=count.at_least,
        weight_bytes=max(0, read - given),
        input_bytes=given,
        output_bytes=size_bytes(module.root(module.entry).shape),
    )


def work_by_name(
    module: Module, layer_of: LayerOf, line_of: LayerOf | None = None
) -> dict[str, OpWork]:
    """Work of each operation of a program, by the instruction's name."""
    return {
        each.name: OpWork(
            _kind(module, each),
            _layers(module, each, layer_of),
            line_of(_origin(module, each)) if line_of else innermost_line(module.frames(each)),
        )
        for each in module.running()
    }


def _parts(module: Module, instruction: Any) -> Iterator[Any]:
    """The instructions of a fusion, those of fusions in it too; else the instruction."""
    if instruction.opcode != "fusion":
        yield instruction
        return
    for computation in module.computations_of(instruction):
        for inner in computation.instructions:
            if inner.opcode not in NO_WORK:
                yield from _parts(module, inner)


def _library(instruction: Any) -> str:
    """The library function that an instruction calls, or ""."""
    if instruction.opcode == "fusion" and (
        match := _LIBRARY_FUSION.search(instruction.backend_config)
    ):
        return match[1].decode()
    return str(instruction.custom_call_target)


def _read_bytes(module: Module, instruction: Any) -> int:
    """Bytes of each operand, once; of an operand that is only sliced, those of the slices."""
    sliced = _find_slices(module, instruction)
    read: dict[int, int] = {}
    for position, operand in enumerate(module.operands(instruction)):
        whole = size_bytes(operand.shape)
        size = min(whole, sliced.get(position, whole))
        read[operand.id] = max(size, read.get(operand.id, 0))
    return sum(read.values())


def _find_slices(module: Module, instruction: Any) -> dict[int, int]:
    """Bytes that are read of those operands that are only sliced, by their position."""
    if instruction.opcode in _SLICES:
        return {0: size_bytes(instruction.shape)}
    if instruction.opcode != "fusion":
        return {}
    sizes: dict[int, int] = {}
    (computation,) = module.computations_of(instruction)
    for inner in computation.instructions:
        if inner.opcode == "parameter":
            uses = [use for use in computation.instructions if inner.id in use.operand_ids]
            if uses and all(
                use.opcode in _SLICES and use.operand_ids[0] == inner.id for use in uses
            ):
                sizes[inner.parameter_number] = sum(size_bytes(use.shape) for use in uses)
    return sizes


def _kind(module: Module, instruction: Any) -> Kind:
    """Main work of an operation: the costliest kind of its parts."""
    kinds = {_part_kind(module, part) for part in _parts(module, instruction)}
    return next((kind for kind in Kind if kind in kinds), Kind.COPY)


def _part_kind(module: Module, instruction: Any) -> Kind:
    if instruction.opcode == "convolution":
        return Kind.DEPTHWISE if _is_depthwise(module, instruction) else Kind.CONVOLUTION
    if instruction.opcode == "dot":
        return Kind.PRODUCT
    target = instruction.custom_call_target.lower()
    if "conv" in target:
        return Kind.CONVOLUTION
    if any(word in target for word in ("matmul", "gemm", "dot")):
        return Kind.PRODUCT
    if instruction.opcode in _REDUCES:
        return Kind.REDUCTION
    return Kind.COPY if instruction.opcode in _MOVES else Kind.ELEMENTWISE


def _is_depthwise(module: Module, instruction: Any) -> bool:
    """True if each of several groups of a convolution has one input feature.

    One channel is one group, so there the framework's name for it decides, as in graph mode.
    """
    if instruction.metadata.op_type.startswith("Depthwise"):
        return True
    kernel = module.operands(instruction)[1].shape.dimensions
    numbers = instruction.convolution_dimension_numbers
    several = instruction.feature_group_count > 1
    return bool(several and kernel[numbers.kernel_input_feature_dimension] == 1)


def _layers(module: Module, instruction: Any, layer_of: LayerOf) -> dict[str, float]:
    """The layers of an operation, by the share of the bytes that it computes for each."""
    computed: Counter[str] = Counter()
    for part in _parts(module, instruction):
        if part.metadata.op_name and part.opcode != "broadcast":
            computed[layer_of(part.metadata.op_name)] += max(1, size_bytes(part.shape))
    if not computed:
        computed[layer_of(_origin(module, instruction))] = 1
    total = computed.total()
    return {name: count / total for name, count in computed.most_common()}


def _origin(module: Module, instruction: Any) -> str:
    """The framework's operation of an instruction that XLA added, from what it reads; or ""."""
    while not instruction.metadata.op_name and instruction.operand_ids:
        instruction = module.operands(instruction)[0]
    return str(instruction.metadata.op_name)
