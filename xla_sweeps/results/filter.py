"""Filter rows: `family=ConvNeXt and resolution>=224` as a mask over the columns of a table.

    filter     = all ("or" all)*
    all        = one ("and" one)*
    one        = "not" one | "(" filter ")" | column | column operator value
    operator   = "=" | "!=" | "<" | "<=" | ">" | ">=" | "~"
    value      = word | 'quoted text' | "quoted text" | null

Texts are compared without case; `~` takes a glob, or a part of the text where it has no `*`, `?` or
`[`. Numbers may end in k, M or G. A missing value equals null and nothing else, and is neither
below nor above anything.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Flagged, Status
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.row import COLUMNS
from xla_sweeps.schema.trial import Precision

if TYPE_CHECKING:
    import pyarrow

ALIASES = {
    "resolution": "resolution_px",
    "px": "resolution_px",
    "batch": "batch_size",
    "flag": "flags",
    "throughput": "throughput_samples_per_s",
    "baseline_throughput": "baseline_throughput_samples_per_s",
    "latency": "latency_p50_ms",
    "baseline_latency": "baseline_latency_p50_ms",
    "absolute_speedup": "absolute_speedup_samples_per_s",
}
"""Short names of columns."""

RENAMED = {
    f"{side}latency_{bound}ms": f"{side}call_{bound}ms"
    for side in ("", "baseline_")
    for bound in ("", "low_", "high_")
}
"""Columns by the names that they had before; the hint for one is its present name."""

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

_WORDS: Mapping[str, type[StrEnum]] = {
    "verdict": Verdict,
    "status": Status,
    "precision": Precision,
    "scenario": Scenario,
}
"""The columns that hold one word of a closed set."""


Mask = npt.NDArray[np.bool_]
"""For each row of a table, whether it matches."""


class Filter(Protocol):
    """A part of a filter."""

    def mask(self, table: pyarrow.Table) -> Mask:
        """Which rows match."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column against a value: lower-case text, a number, a truth value, or None for null."""

    column: str
    operator: str
    value: str | float | bool | None

    def mask(self, table: pyarrow.Table) -> Mask:
        """Which rows match; each value of the column is compared once."""
        coded = table[self.column].combine_chunks().dictionary_encode()
        values = [*coded.dictionary.to_pylist(), None]
        matching = np.array([self._matches(value) for value in values], dtype=bool)
        found: Mask = matching[np.asarray(coded.indices.fill_null(len(values) - 1))]
        return found

    def _matches(self, given: Any) -> bool:
        if self.operator == "!=":
            return not Comparison(self.column, "=", self.value)._matches(given)
        if given is None or given == "" or (isinstance(given, float) and math.isnan(given)):
            return self.operator == "=" and self.value is None
        if self.value is None:
            return False
        if self.column == "flags":
            words = given.lower().split()
            parts = [part for word in words for part in (word, Flagged.parse(word).flag)]
            return any(self._compares(part) for part in parts)
        return self._compares(str(given).lower() if isinstance(self.value, str) else given)

    def _compares(self, given: Any) -> bool:
        if self.operator == "~":
            return fnmatch.fnmatchcase(given, str(self.value))
        if self.operator == "=":
            return bool(given == self.value)
        return bool(_ORDER[self.operator](given, self.value))


@dataclass(frozen=True, slots=True)
class Not:
    """All rows but those of a part."""

    part: Filter

    def mask(self, table: pyarrow.Table) -> Mask:
        """Which rows match."""
        return ~self.part.mask(table)


@dataclass(frozen=True, slots=True)
class Both:
    """The rows that match every part."""

    parts: tuple[Filter, ...]

    def mask(self, table: pyarrow.Table) -> Mask:
        """Which rows match."""
        found: Mask = np.logical_and.reduce([part.mask(table) for part in self.parts])
        return found


@dataclass(frozen=True, slots=True)
class Either:
    """The rows that match any part."""

    parts: tuple[Filter, ...]

    def mask(self, table: pyarrow.Table) -> Mask:
        """Which rows match."""
        found: Mask = np.logical_or.reduce([part.mask(table) for part in self.parts])
        return found


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int


def matching(table: pyarrow.Table, chosen: Filter | None) -> pyarrow.Table:
    """The rows of a table that match a filter; all of them for None."""
    return table if chosen is None else table.filter(chosen.mask(table))


def no_match(text: str | None) -> str:
    """The message where no row matches."""
    own = text is not None and re.search(r"\bmodel\s*[=~]\s*['\"]?local\b", text)
    hint = "; rows of your own models have source=local" if own else ""
    return f"no row matches --where {text!r}{hint}"


def parse_filter(text: str, *, columns: Mapping[str, type] | None = None) -> Filter:
    """Parse a filter.

    Args:
        text: the filter.
        columns: name and type (str, bool, int or float) of each column (default: those of rows).

    Raises:
        ConfigError: one line with what is wrong, and at which character.
    """
    if len(text) > MAX_LENGTH:
        raise ConfigError(
            f"where: a filter of {len(text)} characters; at most {MAX_LENGTH} are allowed"
        )
    kinds = {name: column.kind for name, column in COLUMNS.items()} if columns is None else columns
    parser = _Parser(_tokens(text), kinds)
    found = parser.either(0)
    if parser.token.kind != "end":
        _complain(
            parser.token,
            f"{parser.token.text!r} is not expected here; join conditions with 'and' or 'or'",
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
    """Reads tokens from left to right, one method per level of the grammar."""

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
            _complain(self.token, f"more than {MAX_DEPTH} nested brackets or nots")
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
            _complain(self.token, f"expected a column, got {what}")
        named = self._take()
        column = self._column(named)
        kind = self._columns[column]
        if self.token.kind != "operator":
            if kind is bool:
                return Comparison(column, "=", True)
            _complain(
                self.token,
                f"expected one of = != < <= > >= ~ and a value after {named.text}",
            )
        sign = self._take()
        if self.token.kind not in ("word", "quoted") or (
            self.token.kind == "word" and self.token.text.lower() in _KEYWORDS
        ):
            _complain(
                self.token,
                f"expected a value after {named.text} {sign.text}; quote texts with blanks",
            )
        value = self._take()
        return Comparison(column, sign.text.replace("==", "="), _value(column, kind, sign, value))

    def _column(self, named: _Token) -> str:
        allowed = {name.lower(): name for name in (*self._columns, *ALIASES)}
        name = allowed.get(named.text.lower())
        if name is None:
            given = named.text.lower()
            near = difflib.get_close_matches(given, list(allowed), n=1, cutoff=0.5)
            meant = RENAMED.get(given) or next((allowed[name] for name in near), "")
            hint = f"; did you mean '{meant}'?" if meant else ""
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
            _complain(
                sign, f"null has no order and no parts: write {column} = null or {column} != null"
            )
        return None
    number = _NUMBER.fullmatch(value.text) if value.kind == "word" else None
    if kind is str:
        if number and sign.text != "~":
            _complain(
                value,
                f"{column} is text, not a number; for the text write "
                f"{column} {sign.text} '{value.text}'",
            )
        glob = value.text.lower()
        if sign.text != "~" and not ordered and column in _WORDS:
            _check_word(column, glob, value)
        return f"*{glob}*" if sign.text == "~" and not re.search(r"[*?\[]", glob) else glob
    if sign.text == "~":
        _complain(sign, f"{column} is not text; ~ is for texts")
    if kind is bool:
        if ordered or value.text.lower() not in _TRUTH:
            _complain(value, f"{column} is true or false")
        return _TRUTH[value.text.lower()]
    if number is None:
        _complain(value, f"{column} is a number, not {value.text!r}")
    return float(number[1]) * _SCALES[number[2].lower()]


def _check_word(column: str, given: str, token: _Token) -> None:
    """Refuse a word that the column never holds."""
    words = list(map(str, _WORDS[column]))
    if given not in words:
        unknown = unknown_name(column, token.text, words, listed=len(words))
        _complain(token, str(unknown))


def _complain(token: _Token, text: str) -> NoReturn:
    raise ConfigError(f"where, character {token.place + 1}: {text}")
