"""Read XLA's optimized program of a model from its text. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from xla_sweeps.backends.tensorflow.hlo import NO_WORK, Computation, Instruction, Module
from xla_sweeps.schema.explanation import Fusion, Kind, Program

LARGEST = 10
"""Fusions that are listed."""

LayerOf = Callable[[str], str]
"""Finds where an operation comes from, by its TensorFlow name; "" for nowhere."""

_MOVES = frozenset(
    {
        "broadcast",
        "concatenate",
        "copy",
        "dynamic-slice",
        "dynamic-update-slice",
        "gather",
        "iota",
        "pad",
        "reshape",
        "reverse",
        "slice",
        "transpose",
    }
)

_REDUCES = frozenset({"reduce", "reduce-window", "select-and-scatter", "sort"})

_SLICES = frozenset({"slice", "dynamic-slice", "gather"})

_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_LIBRARY_FUSION = re.compile(r'"kind":"(__(?:onednn|ynn|cudnn|cublas)[^"]*)"')
_GROUPS = re.compile(r"feature_group_count=(\d+)")
_KERNEL = re.compile(r"dim_labels=\w+_(\w+)->")

Located = tuple[Computation, Instruction]


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one operation of a program.

    Attributes:
        layers: where it comes from, with the share of the bytes that it computes for each.
    """

    kind: Kind
    layers: Mapping[str, float]


def program_of(text: str, layer_of: LayerOf) -> Program:
    """Count what a program does.

    Args:
        text: optimized HLO.
        layer_of: finds the layer of a TensorFlow operation.
    """
    module = Module(text)
    work = list(module.running())
    library = {instruction.name: name for _, instruction in work if (name := _library(instruction))}
    own = [
        inner.operation
        for computation, instruction in work
        if instruction.name not in library
        for _, inner in _parts(module, computation, instruction)
    ]
    alone = Counter(instruction.operation for _, instruction in work)
    fusions = [
        _fusion(module, computation, instruction, layer_of)
        for computation, instruction in work
        if instruction.operation == "fusion" and instruction.name not in library
    ]
    return Program(
        operations=len(work),
        fusions=len(fusions),
        library=Counter(library.values()),
        convolutions=own.count("convolution"),
        dots=own.count("dot"),
        copies=alone["copy"],
        transposes=alone["transpose"],
        converts=alone["convert"],
        read_bytes=sum(_read_bytes(module, *entry) for entry in work),
        written_bytes=sum(instruction.size_bytes for _, instruction in work),
        largest=tuple(
            sorted(fusions, key=lambda fusion: -(fusion.read_bytes + fusion.written_bytes))[
                :LARGEST
            ]
        ),
    )


def work_by_name(text: str, layer_of: LayerOf) -> dict[str, Work]:
    """Work of each operation of a program, by the instruction's name.

    Args:
        text: optimized HLO.
        layer_of: finds the layer of a TensorFlow operation.
    """
    module = Module(text)
    return {
        instruction.name: Work(
            _kind(module, computation, instruction),
            _layers(module, computation, instruction, layer_of),
        )
        for computation, instruction in module.running()
    }


def _parts(module: Module, computation: Computation, instruction: Instruction) -> Iterator[Located]:
    """The instructions of a fusion, those of fusions in it too; else the instruction."""
    if instruction.operation != "fusion":
        yield computation, instruction
        return
    for name in instruction.called.get("calls", ()):
        called = module.computations[name]
        for inner in called.instructions.values():
            if inner.operation == "fusion":
                yield from _parts(module, called, inner)
            elif inner.operation not in NO_WORK:
                yield called, inner


def _library(instruction: Instruction) -> str:
    """The library function that an instruction calls, or ""."""
    pattern = {"custom-call": _TARGET, "fusion": _LIBRARY_FUSION}.get(instruction.operation)
    match = pattern.search(instruction.attributes) if pattern else None
    return match[1] if match else ""


def _fusion(
    module: Module, computation: Computation, instruction: Instruction, layer_of: LayerOf
) -> Fusion:
    return Fusion(
        name=instruction.name,
        kind=_kind(module, computation, instruction),
        operations=sum(1 for _ in _parts(module, computation, instruction)),
        read_bytes=_read_bytes(module, computation, instruction),
        written_bytes=instruction.size_bytes,
        layers=tuple(name for name in _layers(module, computation, instruction, layer_of) if name),
    )


def _read_bytes(module: Module, computation: Computation, instruction: Instruction) -> int:
    """Bytes of each operand, once; of an operand that is only sliced, those of the slices."""
    operands = [computation.instructions[name] for name in computation.operands(instruction)]
    sliced = _sliced(module, instruction)
    read: dict[str, int] = {}
    for position, operand in enumerate(operands):
        size = min(operand.size_bytes, sliced.get(position, operand.size_bytes))
        read[operand.name] = max(size, read.get(operand.name, 0))
    return sum(read.values())


def _sliced(module: Module, instruction: Instruction) -> dict[int, int]:
    """Bytes that are read of those operands that are only sliced, by their position."""
    if instruction.operation in _SLICES:
        return {0: instruction.size_bytes}
    sizes: dict[int, int] = {}
    for name in instruction.called.get("calls", ()) if instruction.operation == "fusion" else ():
        computation = module.computations[name]
        users: dict[str, list[Instruction]] = {}
        for inner in computation.instructions.values():
            for operand in computation.operands(inner):
                users.setdefault(operand, []).append(inner)
        for inner in computation.instructions.values():
            if inner.operation != "parameter":
                continue
            uses = users.get(inner.name, [])
            if uses and all(
                use.operation in _SLICES and computation.operands(use)[0] == inner.name
                for use in uses
            ):
                sizes[int(inner.arguments)] = sum(use.size_bytes for use in uses)
    return sizes


def _kind(module: Module, computation: Computation, instruction: Instruction) -> Kind:
    """Main work of an operation: the costliest kind of its parts."""
    kinds = {_part_kind(*part) for part in _parts(module, computation, instruction)}
    return next((kind for kind in Kind if kind in kinds), Kind.COPY)


def _part_kind(computation: Computation, instruction: Instruction) -> Kind:
    if instruction.operation == "convolution":
        return Kind.DEPTHWISE if _is_depthwise(computation, instruction) else Kind.CONVOLUTION
    if instruction.operation == "dot":
        return Kind.PRODUCT
    if instruction.operation == "custom-call":
        target = _library(instruction).lower()
        if "conv" in target:
            return Kind.CONVOLUTION
        if any(word in target for word in ("matmul", "gemm", "dot")):
            return Kind.PRODUCT
    if instruction.operation in _REDUCES:
        return Kind.REDUCTION
    return Kind.COPY if instruction.operation in _MOVES else Kind.ELEMENTWISE


def _is_depthwise(computation: Computation, instruction: Instruction) -> bool:
    """True if each of several groups of a convolution has one input feature.

    One channel is one group, so there TensorFlow's name for it decides, as in graph mode.
    """
    if 'op_type="Depthwise' in instruction.attributes:
        return True
    groups, labels = _GROUPS.search(instruction.attributes), _KERNEL.search(instruction.attributes)
    names = computation.operands(instruction)
    shape = computation.instructions[names[1]].shape if len(names) > 1 else None
    several = groups is not None and int(groups[1]) > 1
    return bool(several and labels and shape and shape[labels[1].index("i")] == 1)


def _layers(
    module: Module, computation: Computation, instruction: Instruction, layer_of: LayerOf
) -> dict[str, float]:
    """The layers of an operation, by the share of the bytes that it computes for each."""
    computed: Counter[str] = Counter()
    for _, inner in _parts(module, computation, instruction):
        if inner.op_name and inner.operation != "broadcast":
            computed[layer_of(inner.op_name)] += max(1, inner.size_bytes)
    if not computed:
        computed[layer_of(_origin(computation, instruction))] = 1
    total = computed.total()
    return {name: count / total for name, count in computed.most_common()}


def _origin(computation: Computation, instruction: Instruction) -> str:
    """The TensorFlow operation of an instruction that XLA added, from what it reads; or ""."""
    while not instruction.op_name:
        names = computation.operands(instruction)
        if not names:
            return ""
        instruction = computation.instructions[names[0]]
    return instruction.op_name
