"""Filters: which rows match, which texts are refused, and the same answers as plain Python."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

import pyarrow
import pytest
from factories import make_record
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.columns import STATISTICS_VERSION
from xla_sweeps.schema.comparisons import headline_of
from xla_sweeps.schema.measurement import Flagged
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.row import COLUMNS, row_dict
from xla_sweeps.store.filter import ALIASES, matching, parse_filter
from xla_sweeps.store.table import schema

ROW: dict[str, Any] = {
    **row_dict(
        summarize(
            [make_record(flags=(Flagged("drift"), Flagged("contains_xla", "graph")))]
        ).comparisons[0]
    ),
    "device": "NVIDIA A100-SXM4-80GB",
    "speedup": 2.0,
    "p_value": None,
    "driver": "550.54",
}


def matches(text: str, row: dict[str, Any]) -> bool:
    """True if the one row of a table matches."""
    table = pyarrow.table({name: [row[name]] for name in COLUMNS}, schema=schema())
    condition = parse_filter(text)
    assert matching(table, condition).num_rows == condition(table).sum()
    return bool(condition(table)[0])


@pytest.mark.parametrize(
    "text",
    [
        *("family=ResNetV1", "FAMILY=resnetv1", "family='ResNetV1'", 'family == "resnetv1"'),
        *("family!=ConvNeXt", "resolution=224", "resolution_px>=224.0", "px<225", "batch=4"),
        *("throughput>39 and throughput<41", "speedup>1.9", "params>25M and params<26e6"),
        *("macs < 4G", "batch=4 or batch=8", "device~a100", "device ~ *A100*"),
        *("device ~ 'NVIDIA A1??-SXM4*'", "not device~h100", "model~[qr]esnet50", "headline"),
        *("headline=true and not host_bound", "not host_bound", "host_bound=no", "p_value=null"),
        *("p_value != 0.5", "not p_value<1", "not p_value>=0", "replica_of=null", "model!=null"),
        *("flags=drift", "flag=contains_xla", "flags=contains_xla:graph", "flags~contains*"),
        *("flags!=contaminated", "verdict=faster and (resolution=224 or batch=8)"),
        *("family=x or family=resnetv1 and batch=4", "batch=8 and family=x or batch=4"),
        *("not (family=x or batch=8)", "not not batch=4", "driver='550.54'", "driver~550"),
        *("measured_at>='2026-01-01'", "measured_at<2027-01-01"),
        *("candidate=xla and baseline=graph", f"statistics_version={STATISTICS_VERSION}"),
    ],
)
def test_a_row_matches(text: str) -> None:
    assert matches(text, ROW), text
    assert not matches(f"not ({text})", ROW)


@pytest.mark.parametrize(
    "text",
    [
        *("family=ConvNeXt", "family=ResNet", "family~^resnet", "speedup>2", "p_value<1"),
        *("p_value>=0", "p_value=0.5", "replica_of!=null", "replica_of~x", "flags=contains"),
        *("headline=false", "(family=x or batch=4) and batch=8", "not batch=4 or batch=8"),
        "device='a100'",
    ],
)
def test_a_row_does_not_match(text: str) -> None:
    assert not matches(text, ROW), text


@pytest.mark.parametrize("scenario", list(Scenario))
def test_rows_of_a_scenario_and_its_modes_are_found(scenario: Scenario) -> None:
    baseline, candidate = headline_of(scenario)
    row = {**ROW, "scenario": str(scenario), "baseline": baseline, "candidate": candidate}
    assert matches(f"scenario={scenario} and candidate={candidate} and baseline={baseline}", row)
    assert not matches(f"scenario={scenario}", {**row, "scenario": "other"})


@pytest.mark.parametrize("batch", [1, 2, 3, 4])
def test_and_binds_closer_than_or_and_not_closest(batch: int) -> None:
    row = {**ROW, "batch_size": batch}
    text = "batch=1 or not batch=2 and batch=3"
    assert matches(text, row) is (batch == 1 or (batch != 2 and batch == 3))
    assert matches("not batch=2 or batch=2", row)
    assert matches("batch=1 and batch=1 or batch=4", row) is (batch in (1, 4))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "where, character 1: expected a column, got the end"),
        ("famly=x", "where, character 1: unknown column 'famly'; did you mean 'family'?"),
        (
            "batch=4 and resoluton=3",
            "where, character 13: unknown column 'resoluton'; did you mean 'resolution'?",
        ),
        ("process=fresh", "where, character 1: column 'process' was removed: every replicate is"),
        ("zzz=1", "where, character 1: unknown column 'zzz'"),
        ("resolution=big", "where, character 12: resolution_px is a number, not 'big'"),
        ("resolution='224'", "where, character 13: resolution_px is a number, not '224'"),
        (
            "family=224",
            "where, character 8: family is text, not a number; for the text write family = '224'",
        ),
        ("family>3", "where, character 8: family is text, not a number"),
        ("speedup~1*", "where, character 8: speedup is not text; ~ is for texts"),
        ("headline>true", "where, character 10: headline is true or false"),
        (
            "verdict=sloww",
            "where, character 9: unknown verdict 'sloww'. Did you mean 'slower'? Allowed: faster, "
            "slower, equivalent, ambiguous, failed, not_measured, none.",
        ),
        ("not (status!=okk)", "where, character 14: unknown status 'okk'. Did you mean 'ok'?"),
        ("headline=maybe", "where, character 10: headline is true or false"),
        (
            "speedup<null",
            "where, character 8: null has no order and no parts: write speedup = null or speedup "
            "!= null",
        ),
        (
            "speedup",
            "where, character 8: expected one of = != < <= > >= ~ and a value after speedup",
        ),
        ("speedup=", "where, character 9: expected a value after speedup ="),
        ("speedup= and batch=4", "where, character 10: expected a value after speedup ="),
        (
            "batch=4 batch=8",
            "where, character 9: 'batch' is not expected here; join conditions with 'and' or 'or'",
        ),
        ("batch=4 and", "where, character 12: expected a column, got the end"),
        ("and batch=4", "where, character 1: expected a column, got 'and'"),
        ("(batch=4", "where, character 1: this bracket is not closed"),
        ("batch=4)", "where, character 8: ')' is not expected here"),
        (
            "model='resnet",
            'where, character 7: "\'" is not expected here, or its quotation does not end',
        ),
        (
            "batch=4 & x",
            "where, character 9: '&' is not expected here; join conditions with 'and' or 'or'",
        ),
        ("batch!4", "where, character 6: '!' is not expected here"),
        (
            "(" * 60 + "batch=4" + ")" * 60,
            "where, character 52: more than 50 nested brackets or nots",
        ),
        ("not " * 5000 + "batch=4", "where: a filter of 20007 characters"),
    ],
)
def test_a_mistake_is_reported_with_its_position(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_filter(text)
    assert str(error.value).startswith(complaint)


SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

numbers = st.integers(-5, 5).map(float)

words = st.text("abcXYZ _-é'", min_size=1, max_size=4)

rows = st.fixed_dictionaries(
    {"p_value": st.none() | numbers, "model": st.just("") | words, "headline": st.booleans()}
)


@given(st.text(max_size=40) | st.text("()=<>!~'\" andornotbtn.5", max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_filter_or_a_reported_mistake(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert matches(text, ROW) in (True, False)


@pytest.mark.parametrize("alias", ALIASES)
def test_every_alias_is_a_column(alias: str) -> None:
    assert ALIASES[alias] in COLUMNS
    assert alias not in COLUMNS
