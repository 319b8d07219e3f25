"""Read the text of an HLO module: its live instructions, and a loop's steps. Pure."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STEPS_LIMIT = 10_000
"""Loops of more steps are not followed to their end."""

NO_WORK = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"})
"""Operations for which nothing runs."""

_BODIES = {
    "while": ("condition", "body"),
    "call": ("to_apply",),
    "conditional": ("true_computation", "false_computation", "branch_computations"),
}
"""Computations called by an operation that run as operations of their own, by their roles."""

_COMPUTATION = re.compile(r"^(?P<entry>ENTRY\s+)?%?(?P<name>[\w.\-]+)\b.*\{\s*$")
_INSTRUCTION = re.compile(r"^\s*(?P<root>ROOT\s+)?%?(?P<name>[\w.\-]+)\s*=\s*(?P<rest>\S.*)$")
_OPERATION = re.compile(r"\s*(?P<operation>[\w\-]+)\(")
_SHAPE = re.compile(r"^(?P<dtype>[a-z]\w*)\[(?P<shape>[\d,]*)\]")
_PERCENT_NAME = re.compile(r"%([\w.\-]+)")
_NAME = re.compile(r"[\w.\-]+")
_CALLED = re.compile(
    r"\b(?P<role>to_apply|condition|body|calls|true_computation|false_computation|"
    r"branch_computations)=(?:\{(?P<several>[^{}]*)\}|%?(?P<one>[\w.\-]+))"
)
_INDEX = re.compile(r"\bindex=(\d+)")
_DIRECTION = re.compile(r"\bdirection=(\w+)")
_ARRAY = re.compile(r"(?P<dtype>[a-z]\w*)\[(?P<shape>[^\]]*)\]")
_NUMBER = re.compile(r"\d+")
_OP_NAME = re.compile(r'\bop_name="([^"]*)"')

Value = int | tuple[Any, ...] | None
"""An integer, a truth value, a tuple of values, or None for what is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One line of a computation.

    Attributes:
        type: of the result, as XLA writes it: `f32[2,3]{1,0}`, `(f32[2], s32[])`.
        dtype: of the array's elements, as XLA writes it: `f32`; "" for tuples.
        shape: sizes of the array; None for tuples and for sizes that are not fixed.
        arguments: what stands between the operation's parentheses.
        attributes: what stands behind them.
        called: names of computations, by the role that they have.
    """

    name: str
    line: str
    is_root: bool
    is_tuple: bool
    type: str
    dtype: str
    shape: tuple[int, ...] | None
    operation: str
    arguments: str
    attributes: str
    called: Mapping[str, tuple[str, ...]]

    @property
    def size_bytes(self) -> int:
        """Bytes of the result, all arrays of a tuple together; each element has whole bytes."""
        return sum(
            math.prod(map(int, _NUMBER.findall(array["shape"]))) * _element_bytes(array["dtype"])
            for array in _ARRAY.finditer(self.type)
        )

    @property
    def op_name(self) -> str:
        """The TensorFlow operation that it comes from, or ""."""
        match = _OP_NAME.search(self.attributes)
        return match[1] if match else ""


@dataclass(slots=True, kw_only=True)
class Computation:
    """Instructions by name, in their order."""

    instructions: dict[str, Instruction] = field(default_factory=dict)

    @property
    def root(self) -> Instruction | None:
        """The instruction that the computation returns; None in a fragment."""
        return next(
            (instruction for instruction in self.instructions.values() if instruction.is_root), None
        )

    def operands(self, instruction: Instruction) -> list[str]:
        """Names of the instructions that this one reads, in order."""
        if instruction.operation in ("constant", "parameter"):
            return []
        pattern = _PERCENT_NAME if "%" in instruction.arguments else _NAME
        return [
            name for name in pattern.findall(instruction.arguments) if name in self.instructions
        ]

    def live(self) -> Iterator[Instruction]:
        """The instructions that the root needs; all of a fragment."""
        if self.root is None:
            yield from self.instructions.values()
            return
        todo, seen = [self.root.name], {self.root.name}
        while todo:
            instruction = self.instructions[todo.pop()]
            yield instruction
            new = set(self.operands(instruction)) - seen
            seen |= new
            todo.extend(new)


class Module:
    """The computations of a module, by name.

    Args:
        text: as XLA prints it, with or without types before operands.
    """

    def __init__(self, text: str) -> None:
        self.computations: dict[str, Computation] = {}
        self.entry = ""
        current = ""
        for line in text.splitlines():
            if not line.startswith((" ", "HloModule")) and (start := _COMPUTATION.match(line)):
                current = start["name"]
                self.entry = current if start["entry"] else self.entry or current
            elif instruction := _instruction(line):
                self.computations.setdefault(current, Computation()).instructions[
                    instruction.name
                ] = instruction

    def running(self) -> Iterator[tuple[Computation, Instruction]]:
        """The instructions that run as operations of their own, those of loops once.

        Those are in the entry, and in what loops, conditions and calls run.
        """
        todo, seen = [self.entry] if self.entry else [], {self.entry}
        while todo:
            computation = self.computations[todo.pop()]
            for instruction in computation.live():
                new = [
                    name
                    for role in _BODIES.get(instruction.operation, ())
                    for name in instruction.called.get(role, ())
                    if name not in seen
                ]
                seen.update(new)
                todo += new
                if instruction.operation not in NO_WORK and instruction.operation not in _BODIES:
                    yield computation, instruction

    def operations(self) -> int:
        """Number of operations that run, those of loops once."""
        return sum(1 for _ in self.running())

    def values(
        self, name: str, parameters: Sequence[Value] | None = None
    ) -> Callable[[str], Value]:
        """Values of a computation's scalars and tuples, by the instruction's name.

        Args:
            name: the computation.
            parameters: the values of its parameters; None for unknown ones.
        """
        computation, computed = self.computations[name], dict[str, Value]()

        def value(of: str) -> Value:
            if of not in computed:
                computed[of] = compute(computation.instructions[of])
            return computed[of]

        def compute(instruction: Instruction) -> Value:
            if instruction.operation == "parameter":
                number = int(instruction.arguments)
                return parameters[number] if parameters and number < len(parameters) else None
            if not instruction.is_tuple and instruction.shape != ():
                return None
            if instruction.operation == "constant":
                return _constant(instruction.arguments)
            values = [value(operand) for operand in computation.operands(instruction)]
            if instruction.operation == "call":
                return self.result(instruction.called["to_apply"][0], values)
            return _result(instruction, values)

        return value

    def result(self, name: str, parameters: Sequence[Value]) -> Value:
        """Value that a computation returns, as far as that is known."""
        root = self.computations[name].root
        return self.values(name, parameters)(root.name) if root else None

    def follow(self, loop: Instruction, state: Value) -> tuple[int | None, Value]:
        """Follow a `while`: the number of its steps, and what stays the same in them.

        Args:
            loop: the instruction.
            state: what is known of the tuple that it starts with.

        Returns:
            The number of steps, None where it cannot be known; and the tuple, with None for what
            changes.
        """
        same = state
        for steps in range(STEPS_LIMIT + 1):
            goes_on = self.result(loop.called["condition"][0], [state])
            if goes_on is None or not goes_on:
                return (None if goes_on is None else steps), same
            state = self.result(loop.called["body"][0], [state])
            same = _common(same, state)
        return None, same


def _instruction(line: str) -> Instruction | None:
    match = _INSTRUCTION.match(line)
    if match is None:
        return None
    rest = match["rest"]
    end = _closing(rest, 0) if rest.startswith("(") else rest.find(" ")
    kind, behind = rest[:end], rest[end:]
    called = _OPERATION.match(behind)
    if called is None:
        return None
    close = _closing(behind, called.end() - 1)
    shape = _SHAPE.match(kind)
    attributes = behind[close:]
    return Instruction(
        name=match["name"],
        line=line.strip(),
        is_root=bool(match["root"]),
        is_tuple=kind.startswith("("),
        type=kind,
        dtype=shape["dtype"] if shape else "",
        shape=tuple(int(size) for size in shape["shape"].split(",") if size) if shape else None,
        operation=called["operation"],
        arguments=behind[called.end() : close - 1],
        attributes=attributes,
        called={
            role["role"]: tuple(_NAME.findall(role["several"] or role["one"]))
            for role in _CALLED.finditer(attributes)
        },
    )


def _closing(text: str, start: int) -> int:
    """The position behind the parenthesis that closes the one at `start`."""
    depth = 0
    for bracket in re.finditer(r"[()]", text[start:]):
        depth += 1 if bracket[0] == "(" else -1
        if depth == 0:
            return start + bracket.end()
    return len(text)


def _constant(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else None


_LARGEST = 2**31
"""Counters of loops are 32-bit integers; what lies beyond is not known."""

_ARITHMETIC: dict[str, Callable[[Any, Any], int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "minimum": min,
    "maximum": max,
}

_PASSED_ON = frozenset({"reshape", "copy", "convert", "bitcast", "optimization-barrier"})


def _result(instruction: Instruction, values: Sequence[Value]) -> Value:
    """Value of an operation for these operands; None where that is not known."""
    if instruction.operation == "tuple":
        return tuple(values)
    if not values:
        return None
    if instruction.operation == "get-tuple-element" and isinstance(values[0], tuple):
        (index,) = _INDEX.findall(instruction.attributes)
        element: Value = values[0][int(index)]
        return element
    if instruction.operation in _PASSED_ON:
        return values[0]
    if instruction.operation == "and" and any(value is False for value in values):
        return False
    if instruction.operation == "or" and any(value is True for value in values):
        return True
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) < len(values):
        return None
    if instruction.operation in ("and", "or"):
        return all(numbers) if instruction.operation == "and" else any(numbers)
    if instruction.operation == "not":
        return not numbers[0]
    if instruction.operation == "compare":
        (direction,) = _DIRECTION.findall(instruction.attributes)
        return bool(getattr(operator, direction.lower())(*numbers))
    if instruction.operation == "select":
        return numbers[1] if numbers[0] else numbers[2]
    if instruction.operation not in _ARITHMETIC:
        return None
    result: int = _ARITHMETIC[instruction.operation](*numbers)
    return result if abs(result) < _LARGEST else None


def _common(left: Value, right: Value) -> Value:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return tuple(map(_common, left, right))
    return left if left == right else None


def _element_bytes(dtype: str) -> int:
    """Bytes of one element; 0 for what holds no numbers, as `token`."""
    bits = _NUMBER.search(dtype)
    return max(1, int(bits[0]) // 8) if bits else int(dtype == "pred")
