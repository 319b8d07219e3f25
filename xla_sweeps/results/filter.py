"""Which rows are meant: `family=ConvNeXt and resolution>=224` as a predicate on rows. Pure.

    filter     = all ("or" all)*
    all        = one ("and" one)*
    one        = "not" one | "(" filter ")" | column | column operator value
    operator   = "=" | "!=" | "<" | "<=" | ">" | ">=" | "~"
    value      = word | 'quoted text' | "quoted text" | null

Texts are compared without case; `~` takes a glob, or a part of the text where there is no `*`, `?`
or `[` in it. Numbers may end in k, M or G. A value that is missing equals null and nothing else,
and is neither below nor above anything.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.row import ComparisonRow

ALIASES = {
    "resolution": "resolution_px",
    "px": "resolution_px",
    "batch": "batch_size",
    "flag": "flags",
    "throughput": "throughput_samples_per_s",
    "baseline_throughput": "baseline_throughput_samples_per_s",
    "latency": "latency_ms",
    "baseline_latency": "baseline_latency_ms",
    "absolute_speedup": "absolute_speedup_samples_per_s",
}
"""Short names of columns."""

MAX_LENGTH, MAX_DEPTH = 10_000, 50

_TOKEN = re.compile(
    r"""\s*(?:(?P<operator>==|!=|<=|>=|[=<>~])|(?P<bracket>[()])|'(?P<single>[^']*)'|"(?P<double>[^"]*)"|"""
    r"""(?P<word>[^\s()=!<>~'"]+))"""
)

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)([kMG]?)", re.I)

_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_KEYWORDS = ("and", "or", "not")


class Filter(Protocol):
    """A part of a filter."""

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether the row is meant."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column against a value: text in lower case, a number, a truth value, or None for null."""

    column: str
    operator: str
    value: str | float | bool | None

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether the row is meant."""
        if self.operator == "!=":
            return not Comparison(self.column, "=", self.value).holds(row)
        given = row.get(self.column)
        if given is None or given in ("", ()) or (isinstance(given, float) and math.isnan(given)):
            return self.operator == "=" and self.value is None
        if self.value is None:
            return False
        if self.column == "flags":
            words = (
                given.lower().split()
                if isinstance(given, str)
                else [str(word).lower() for word in given]
            )
            return any(
                self._matches(part) for word in words for part in (word, word.partition(":")[0])
            )
        return self._matches(str(given).lower() if isinstance(self.value, str) else given)

    def _matches(self, given: Any) -> bool:
        if self.operator == "~":
            return fnmatch.fnmatchcase(given, str(self.value))
        return bool(
            given == self.value
            if self.operator == "="
            else _ORDER[self.operator](given, self.value)
        )


@dataclass(frozen=True, slots=True)
class Not:
    """All rows but those of a part."""

    part: Filter

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether the row is meant."""
        return not self.part.holds(row)


@dataclass(frozen=True, slots=True)
class Both:
    """The rows that every part means."""

    parts: tuple[Filter, ...]

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether the row is meant."""
        return all(part.holds(row) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Either:
    """The rows that any part means."""

    parts: tuple[Filter, ...]

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether the row is meant."""
        return any(part.holds(row) for part in self.parts)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int


def compile(
    text: str, *, columns: Mapping[str, type] | None = None
) -> Callable[[Mapping[str, Any]], bool]:
    """The filter as a predicate on rows: a row's columns by name, as `analysis.row_dict` gives them.

    Args:
        text: the filter.
        columns: those that rows have, with their plain types (default: a comparison row's).

    Raises:
        ConfigError: one line that says what is wrong, and at which character.
    """
    return parse(text, columns=columns).holds


def parse(text: str, *, columns: Mapping[str, type] | None = None) -> Filter:
    """The filter's parts; see `compile`."""
    if len(text) > MAX_LENGTH:
        raise ConfigError(
            f"where: a filter of {len(text)} characters; at most {MAX_LENGTH} are allowed"
        )
    parser = _Parser(_tokens(text), ComparisonRow.columns() if columns is None else columns)
    found = parser.either(0)
    if parser.token.kind != "end":
        _complain(
            parser.token,
            f"{parser.token.text!r} is not expected here; join conditions by 'and' or 'or'",
        )
    return found


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    place = 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            start = place + len(text[place:]) - len(text[place:].lstrip())
            _complain(
                _Token("", "", start),
                f"{text[start]!r} is not expected here, or its quotation does not end",
            )
        kind = str(match.lastgroup)
        tokens.append(
            _Token(
                "quoted" if kind in ("single", "double") else kind, match[kind], match.start(kind)
            )
        )
        place = match.end()
    return [*tokens, _Token("end", "", len(text))]


class _Parser:
    """Reads tokens from left to right, one function a level of the grammar."""

    def __init__(self, tokens: Sequence[_Token], columns: Mapping[str, type]) -> None:
        self._tokens = tokens
        self._next = 0
        self._columns = columns

    @property
    def token(self) -> _Token:
        return self._tokens[self._next]

    def either(self, depth: int) -> Filter:
        parts = [self._both(depth)]
        while self._took("or"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _both(self, depth: int) -> Filter:
        parts = [self._one(depth)]
        while self._took("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def _one(self, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            _complain(self.token, f"more than {MAX_DEPTH} brackets or nots in each other")
        if self._took("not"):
            return Not(self._one(depth + 1))
        if self.token.text == "(" and self.token.kind == "bracket":
            opened = self._take()
            inner = self.either(depth + 1)
            if self.token.text != ")" or self.token.kind != "bracket":
                _complain(opened, "this bracket is not closed")
            self._take()
            return inner
        return self._comparison()

    def _comparison(self) -> Filter:
        if self.token.kind != "word" or self.token.text.lower() in _KEYWORDS:
            what = repr(self.token.text) if self.token.text else "the end"
            _complain(self.token, f"a column is needed, not {what}")
        named = self._take()
        column = self._column(named)
        kind = self._columns[column]
        if self.token.kind != "operator":
            if kind is bool:
                return Comparison(column, "=", True)
            _complain(
                self.token,
                f"what about {named.text}? One of = != < <= > >= ~ and a value are needed",
            )
        sign = self._take()
        if self.token.kind not in ("word", "quoted") or (
            self.token.kind == "word" and self.token.text.lower() in _KEYWORDS
        ):
            _complain(
                self.token,
                f"a value is needed after {named.text} {sign.text}; quote texts with blanks",
            )
        value = self._take()
        return Comparison(column, sign.text.replace("==", "="), _value(column, kind, sign, value))

    def _column(self, named: _Token) -> str:
        allowed = {name.lower(): name for name in (*self._columns, *ALIASES)}
        name = allowed.get(named.text.lower())
        if name is None:
            near = difflib.get_close_matches(named.text.lower(), list(allowed), n=1, cutoff=0.5)
            hint = f"; did you mean '{allowed[near[0]]}'?" if near else ""
            _complain(named, f"unknown column '{named.text}'{hint}")
        return name if name in self._columns else ALIASES[name]

    def _took(self, keyword: str) -> bool:
        found = self.token.kind == "word" and self.token.text.lower() == keyword
        if found:
            self._take()
        return found

    def _take(self) -> _Token:
        token = self.token
        self._next += token.kind != "end"
        return token


def _value(column: str, kind: type, sign: _Token, value: _Token) -> str | float | bool | None:
    """The value in the column's own kind."""
    ordered = sign.text in _ORDER
    if value.kind == "word" and value.text.lower() == "null":
        if ordered or sign.text == "~":
            _complain(sign, f"null has no order and no parts: {column} = null, or {column} != null")
        return None
    number = _NUMBER.fullmatch(value.text) if value.kind == "word" else None
    if kind is str:
        if number and sign.text != "~":
            _complain(
                value,
                f"{column} is text, not a number; for the text write {column} {sign.text} '{value.text}'",
            )
        glob = value.text.lower()
        return f"*{glob}*" if sign.text == "~" and not re.search(r"[*?\[]", glob) else glob
    if sign.text == "~":
        _complain(sign, f"{column} is no text; ~ is for texts")
    if kind is bool:
        if ordered or value.text.lower() not in _TRUTH:
            _complain(value, f"{column} is true or false")
        return _TRUTH[value.text.lower()]
    if number is None:
        _complain(value, f"{column} is a number, not {value.text!r}")
    return float(number[1]) * _SCALES[number[2].lower()]


def _complain(token: _Token, text: str) -> NoReturn:
    raise ConfigError(f"where, character {token.place + 1}: {text}")
