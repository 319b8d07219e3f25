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
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from xla_sweeps.analysis.cost import COSTS
from xla_sweeps.errors import REMOVED, ConfigError, did_you_mean, unknown_name
from xla_sweeps.schema.columns import RESULT, Verdict
from xla_sweeps.schema.measurement import Flagged, Status
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.row import COLUMNS
from xla_sweeps.schema.trial import Precision
from xla_sweeps.system.text import count_noun

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

MAX_LENGTH, MAX_DEPTH = 10_000, 50

_TOKEN = re.compile(
    r"(?P<operator>==|!=|<=|>=|[=<>~])|(?P<bracket>[()])"
    r"|(?P<quote>['\"])(?P<quoted>.*?)(?P=quote)"
    r"|(?P<word>[^\s()=!<>~'\"]+)|(?P<wrong>\S)",
    re.DOTALL,
)

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)([kMG]?)", re.I)

_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "~": fnmatch.fnmatchcase,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_ORDER = ("<", "<=", ">", ">=")

_KEYWORDS = ("and", "or", "not")

_WORDS: Mapping[str, type[StrEnum]] = {
    "verdict": Verdict,
    "status": Status,
    "precision": Precision,
    "scenario": Scenario,
}
"""The columns that hold one word of a closed set."""

_KINDS: Mapping[str, type] = {
    **{name: column.kind for name, column in COLUMNS.items()},
    **dict.fromkeys(COSTS, float),
}

Mask = npt.NDArray[np.bool_]
"""Array that holds for each row of a table whether it matches."""

Filter = Callable[["pyarrow.Table"], Mask]
"""Tells which rows of a table match."""


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


def matching(table: pyarrow.Table, chosen: Filter | None) -> pyarrow.Table:
    """The rows of a table that match a filter; all of them for None."""
    return table if chosen is None else table.filter(chosen(table))


def results_alone(table: pyarrow.Table, where: str | None) -> pyarrow.Table:
    """The table without what sweeps measured to test themselves, unless `where` names `purpose`."""
    import pyarrow.compute as compute

    is_result = compute.equal(table["purpose"], RESULT)
    if not any(token.text.lower() == "purpose" for token in _tokens(where or "")):
        return table.filter(is_result)
    headline = compute.and_(table["headline"], is_result)
    return table.set_column(table.column_names.index("headline"), "headline", headline)


def no_match(text: str | None, rows: int | None = None) -> str:
    """The message where no row matches, of so many."""
    own = text is not None and re.search(r"\bmodel\s*[=~]\s*['\"]?local\b", text)
    hint = "; rows of your own models have source=local" if own else ""
    none = "no row matches" if rows is None else f"0 of {count_noun(rows, 'row')} match"
    return f"{none} --where {text!r}{hint}"


def parse_filter(text: str) -> Filter:
    """Parse a filter; `ConfigError` says what is wrong, and at which character."""
    if len(text) > MAX_LENGTH:
        raise ConfigError(
            f"where: a filter of {len(text)} characters; at most {MAX_LENGTH} are allowed"
        )
    parser = _Parser(_tokens(text))
    chosen = parser.either(0)
    if parser.token.kind != "end":
        _complain(
            parser.token,
            f"{parser.token.text!r} is not expected here; join conditions with 'and' or 'or'",
        )
    return chosen


def _tokens(text: str) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        group = str(match.lastgroup)
        is_keyword = group == "word" and match[group].lower() in _KEYWORDS
        token = _Token("keyword" if is_keyword else group, match[group], match.start(group))
        if group == "wrong":
            _complain(token, f"{token.text!r} is not expected here, or its quotation does not end")
        tokens.append(token)
    return [*tokens, _Token("end", "", len(text))]


class _Parser:
    """Read tokens from left to right, one method per level of the grammar."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    @property
    def token(self) -> _Token:
        return self._tokens[self._next]

    def either(self, depth: int) -> Filter:
        parts = [self._both(depth)]
        while self._took("or"):
            parts.append(self._both(depth))
        return lambda table: np.logical_or.reduce([part(table) for part in parts])

    def _both(self, depth: int) -> Filter:
        parts = [self._one(depth)]
        while self._took("and"):
            parts.append(self._one(depth))
        return lambda table: np.logical_and.reduce([part(table) for part in parts])

    def _one(self, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            _complain(self.token, f"more than {MAX_DEPTH} nested brackets or nots")
        if self._took("not"):
            part = self._one(depth + 1)
            return lambda table: ~part(table)
        opened = self.token
        if self._took("("):
            inner = self.either(depth + 1)
            if not self._took(")"):
                _complain(opened, "this bracket is not closed")
            return inner
        return self._comparison()

    def _comparison(self) -> Filter:
        if self.token.kind != "word":
            what = repr(self.token.text) if self.token.text else "the end"
            _complain(self.token, f"expected a column, got {what}")
        named = self._take()
        column = _column(named)
        if self.token.kind != "operator":
            if _KINDS[column] is bool:
                return partial(_mask, column=column, sign="=", value=True)
            _complain(
                self.token, f"expected one of = != < <= > >= ~ and a value after {named.text}"
            )
        sign = self._take()
        if self.token.kind not in ("word", "quoted"):
            _complain(
                self.token,
                f"expected a value after {named.text} {sign.text}; quote texts with blanks",
            )
        value = _value(column, sign, self._take())
        return partial(_mask, column=column, sign=sign.text.replace("==", "="), value=value)

    def _took(self, text: str) -> bool:
        """True, and past it, if a keyword or a bracket is next."""
        matches = self.token.kind in ("keyword", "bracket") and self.token.text.lower() == text
        if matches:
            self._take()
        return matches

    def _take(self) -> _Token:
        token = self.token
        self._next += token.kind != "end"
        return token


def _column(named: _Token) -> str:
    """The name of a column, which may be given by an alias."""
    given = named.text.lower()
    allowed = {name.lower(): name for name in (*_KINDS, *ALIASES)}
    if instead := REMOVED.get(("column", given)):
        _complain(named, f"column '{given}' was removed: {instead}")
    if given not in allowed:
        near = difflib.get_close_matches(given, list(allowed), n=4, cutoff=0.5)
        near.sort(key=lambda name: sorted(name) != sorted(given))  # swapped letters first
        hint = did_you_mean(named.text, [allowed[name] for name in near])
        _complain(named, f"unknown column '{named.text}'{hint.replace(' D', '; d')}")
    name = allowed[given]
    return ALIASES.get(name, name)


def _mask(
    table: pyarrow.Table, *, column: str, sign: str, value: str | float | bool | None
) -> Mask:
    """Compare a column with lower-case text, a number, a truth value, or None for null."""
    if column not in table.column_names:
        raise ConfigError(f"where: {column} needs a price: `xla-sweeps results --price-per-hour`")
    values = table[column].to_pylist()
    matches = {given: _matches(given, column, sign, value) for given in set(values)}
    return np.array([matches[given] for given in values], dtype=bool)


def _matches(given: Any, column: str, sign: str, value: str | float | bool | None) -> bool:
    if sign == "!=":
        return not _matches(given, column, "=", value)
    missing = given is None or given == "" or (isinstance(given, float) and math.isnan(given))
    if missing or value is None:
        return sign == "=" and missing and value is None
    parts = [given]
    if column == "flags":
        words = given.split()
        parts = [part for word in words for part in (word, Flagged.parse(word).flag)]
    return any(
        _COMPARE[sign](str(part).lower() if isinstance(value, str) else part, value)
        for part in parts
    )


def _value(column: str, sign: _Token, value: _Token) -> str | float | bool | None:
    """The value in the column's own kind."""
    kind = _KINDS[column]
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
        text = value.text.lower()
        words = list(map(str, _WORDS[column])) if column in _WORDS else [text]
        if sign.text in ("=", "==", "!=") and text not in words:
            _complain(value, str(unknown_name(column, value.text, words, listed=len(words))))
        return f"*{text}*" if sign.text == "~" and not re.search(r"[*?\[]", text) else text
    if sign.text == "~":
        _complain(sign, f"{column} is not text; ~ is for texts")
    if kind is bool:
        if ordered or value.text.lower() not in _TRUTH:
            _complain(value, f"{column} is true or false")
        return _TRUTH[value.text.lower()]
    if number is None:
        _complain(value, f"{column} is a number, not {value.text!r}")
    return float(number[1]) * _SCALES[number[2].lower()]


def _complain(token: _Token, text: str) -> NoReturn:
    raise ConfigError(f"where, character {token.place + 1}: {text}")
