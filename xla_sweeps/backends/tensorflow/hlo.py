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
        found = _OP_NAME.search(self.attributes)
        return found[1] if found else ""


@dataclass(slots=True, kw_only=True)
class Computation:
    """Instructions by name, in their order."""

    instructions: dict[str, Instruction] = field(default_factory=dict)

    @property
    def root(self) -> Instruction | None:
        """The instruction that the computation returns; None in a fragment."""
        return next((item for item in self.instructions.values() if item.is_root), None)

    def operands(self, item: Instruction) -> list[str]:
        """Names of the instructions that this one reads, in order."""
        if item.operation in ("constant", "parameter"):
            return []
        pattern = _PERCENT_NAME if "%" in item.arguments else _NAME
        return [name for name in pattern.findall(item.arguments) if name in self.instructions]

    def live(self) -> Iterator[Instruction]:
        """The instructions that the root needs; all of a fragment."""
        if self.root is None:
            yield from self.instructions.values()
            return
        todo, seen = [self.root.name], {self.root.name}
        while todo:
            item = self.instructions[todo.pop()]
            yield item
            new = set(self.operands(item)) - seen
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
            elif item := _instruction(line):
                self.computations.setdefault(current, Computation()).instructions[item.name] = item

    def running(self) -> Iterator[tuple[Computation, Instruction]]:
        """The instructions that run as operations of their own, those of loops once.

        Those are in the entry, and in what loops, conditions and calls run.
        """
        todo, seen = [self.entry] if self.entry else [], {self.entry}
        while todo:
            computation = self.computations[todo.pop()]
            for item in computation.live():
                new = [
                    name
                    for role in _BODIES.get(item.operation, ())
                    for name in item.called.get(role, ())
                    if name not in seen
                ]
                seen.update(new)
                todo += new
                if item.operation not in NO_WORK and item.operation not in _BODIES:
                    yield computation, item

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
        computation, known = self.computations[name], dict[str, Value]()

        def value(of: str) -> Value:
            if of not in known:
                known[of] = compute(computation.instructions[of])
            return known[of]

        def compute(item: Instruction) -> Value:
            if item.operation == "parameter":
                number = int(item.arguments)
                return parameters[number] if parameters and number < len(parameters) else None
            if not item.is_tuple and item.shape != ():
                return None
            if item.operation == "constant":
                return _constant(item.arguments)
            values = [value(operand) for operand in computation.operands(item)]
            if item.operation == "call":
                return self.result(item.called["to_apply"][0], values)
            return _result(item, values)

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
    found = _INSTRUCTION.match(line)
    if found is None:
        return None
    rest = found["rest"]
    end = _closing(rest, 0) if rest.startswith("(") else rest.find(" ")
    kind, behind = rest[:end], rest[end:]
    called = _OPERATION.match(behind)
    if called is None:
        return None
    close = _closing(behind, called.end() - 1)
    shape = _SHAPE.match(kind)
    attributes = behind[close:]
    return Instruction(
        name=found["name"],
        line=line.strip(),
        is_root=bool(found["root"]),
        is_tuple=kind.startswith("("),
        type=kind,
        dtype=shape["dtype"] if shape else "",
        shape=tuple(int(size) for size in shape["shape"].split(",") if size) if shape else None,
        operation=called["operation"],
        arguments=behind[called.end() : close - 1],
        attributes=attributes,
        called={
            item["role"]: tuple(_NAME.findall(item["several"] or item["one"]))
            for item in _CALLED.finditer(attributes)
        },
    )


def _closing(text: str, start: int) -> int:
    """The position behind the parenthesis that closes the one at `start`."""
    depth = 0
    for found in re.finditer(r"[()]", text[start:]):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return start + found.end()
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


def _result(item: Instruction, values: Sequence[Value]) -> Value:
    """Value of an operation for these operands; None where that is not known."""
    if item.operation == "tuple":
        return tuple(values)
    if not values:
        return None
    if item.operation == "get-tuple-element" and isinstance(values[0], tuple):
        (index,) = _INDEX.findall(item.attributes)
        element: Value = values[0][int(index)]
        return element
    if item.operation in _PASSED_ON:
        return values[0]
    if item.operation == "and" and any(value is False for value in values):
        return False
    if item.operation == "or" and any(value is True for value in values):
        return True
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) < len(values):
        return None
    if item.operation in ("and", "or"):
        return all(numbers) if item.operation == "and" else any(numbers)
    if item.operation == "not":
        return not numbers[0]
    if item.operation == "compare":
        (direction,) = _DIRECTION.findall(item.attributes)
        return bool(getattr(operator, direction.lower())(*numbers))
    if item.operation == "select":
        return numbers[1] if numbers[0] else numbers[2]
    if item.operation not in _ARITHMETIC:
        return None
    result: int = _ARITHMETIC[item.operation](*numbers)
    return result if abs(result) < _LARGEST else None


def _common(left: Value, right: Value) -> Value:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return tuple(map(_common, left, right))
    return left if left == right else None


def _element_bytes(dtype: str) -> int:
    """Bytes of one element; 0 for what holds no numbers, as `token`."""
    bits = _NUMBER.search(dtype)
    return max(1, int(bits[0]) // 8) if bits else int(dtype == "pred")
