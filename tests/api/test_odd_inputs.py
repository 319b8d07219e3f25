"""Odd requests from Python: each raises one line, and none a traceback of something else."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from composed import complaint_of
from paths import ROOT

import xla_sweeps as xs
from xla_sweeps.api import shipping, supervisor
from xla_sweeps.api.progress import follower
from xla_sweeps.backends.tensorflow.sources import shipped


@pytest.fixture(autouse=True)
def in_a_new_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


class Raises:
    """An object of which everything raises."""

    def __init__(self, error: type[BaseException], *names: str) -> None:
        vars(self).update(error=error, names=names)

    def __getattr__(self, name: str) -> Any:
        raise vars(self)["error"]("never")

    def _fail(self) -> Any:
        raise vars(self)["error"]("never\nmore")

    __getstate__ = __repr__ = __str__ = __len__ = __call__ = _fail

    def __reduce_ex__(self, protocol: object) -> Any:
        self._fail()

    def __array__(self, *more: Any, **named: Any) -> Any:
        self._fail()

    def __iter__(self) -> Any:
        return self._fail()

    def __fspath__(self) -> str:
        return self._fail()  # type: ignore[no-any-return]


class Liar:
    """An object that does not even say of which class it is."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("never")

    @__class__.setter
    def __class__(self, kind: Any) -> None: ...


class Pretender:
    """An object that says it is a text."""

    __class__ = str  # type: ignore[assignment]


class Unequal(str):
    """A text that cannot be compared."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise ValueError("never")


class Unread(dict[str, Any]):
    """A mapping that cannot be read."""

    def items(self) -> Any:
        raise RuntimeError("never")


class Kind(type):
    """A class of a class that cannot be looked up."""

    def __hash__(cls) -> int:
        raise RuntimeError("never")


def cycle() -> Any:
    ring: dict[str, Any] = {}
    ring["again"] = [ring]
    return ring


def deep() -> Any:
    nest: list[Any] = []
    for _ in range(5_000):
        nest = [nest]
    return nest


def held(value: Any) -> Callable[[], Any]:
    return lambda: value


def any_of(value: Any) -> Any:
    """A value of any type, where the type checker knows better."""
    return value


ODD: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "number": lambda: 3,
    "float": lambda: 2.5,
    "NaN": lambda: float("nan"),
    "truth": lambda: True,
    "nothing": lambda: "",
    "NUL": lambda: "a\0b",
    "half a character": lambda: "\ud800",
    "option": lambda: "--help",
    "user's home": lambda: "~nobody-of-that-name/a",
    "long": lambda: "x" * 300,
    "too long": lambda: "x" * 300_000,
    "line break": lambda: "a\nb=1",
    "bytes": lambda: b"a",
    "list": lambda: [1, None],
    "generator": lambda: (one for one in "ab"),
    "set": lambda: {1, "a"},
    "object": object,
    "class": lambda: dict,
    "module": lambda: sys,
    "key": lambda: {3: [1]},
    "cycle": cycle,
    "depth": deep,
    "array": lambda: np.zeros((2, 2)),
    "array of objects": lambda: np.array([None, []], dtype=object),
    "raises": lambda: Raises(ValueError),
    "exits": lambda: Raises(SystemExit),
    "lies of its class": Liar,
    "says it is a text": Pretender,
    "cannot be compared": lambda: Unequal(NAME),
    "cannot be read": lambda: Unread(a=1),
    "of a class that raises": lambda: Kind("Odd", (), {})(),
    "too many digits": lambda: 10**5000,
    "holds what raises": lambda: held(Raises(KeyError)),
    "holds what exits": lambda: held(Raises(SystemExit)),
    "holds a generator": lambda: held(one for one in "ab"),
    "holds depth": lambda: held(deep()),
}

NAME = "mobilenet_v1"

PLACES: dict[str, Callable[[Any], Any]] = {
    "model": lambda odd: xs.measure(odd, device="nowhere"),
    "inputs": lambda odd: xs.measure(NAME, [odd], device="nowhere"),
    "named inputs": lambda odd: xs.measure(NAME, {"a": odd}, device="nowhere"),
    "modes": lambda odd: xs.measure(NAME, modes=odd, device="nowhere"),
    "scenario": lambda odd: xs.measure(NAME, scenario=odd, device="nowhere"),
    "batch_size": lambda odd: xs.measure(NAME, batch_size=odd, device="nowhere"),
    "effort": lambda odd: xs.measure(NAME, effort=odd, device="nowhere"),
    "results_dir": lambda odd: xs.measure(NAME, results_dir=odd, device="nowhere"),
    "progress": lambda odd: xs.measure(NAME, progress=odd, device="nowhere"),
    "a nested option": lambda odd: xs.measure(
        NAME, **any_of({"effort": {"block_s": odd}}), device="nowhere"
    ),
    "tracker": lambda odd: xs.measure(NAME, tracker=odd, device="nowhere"),
    "sweep's progress": lambda odd: xs.sweep({"model": NAME}, progress=odd, device="nowhere"),
    "an option": lambda odd: xs.measure(NAME, threads=odd, device="nowhere"),
    "a list's option": lambda odd: xs.measure(NAME, xla_flags=[odd], device="nowhere"),
    "explain": lambda odd: xs.explain(odd, device="nowhere"),
    "explain's folder": lambda odd: xs.explain(NAME, results_dir=odd, device="nowhere"),
    "results": xs.results,
    "where": lambda odd: xs.results(where=any_of([]) if odd is None else odd),
    "baselines": lambda odd: xs.results(baselines=odd),
    "compare": lambda odd: xs.compare(odd, odd),
    "compare's where": lambda odd: xs.compare(".", ".", where=odd),
    "sweep": xs.sweep,
    "sweep's value": lambda odd: xs.sweep({"model": NAME, "resolution": odd, "device": "nowhere"}),
    "sweep's model": lambda odd: xs.sweep({"model": odd, "device": "nowhere"}),
    "sweep's key": lambda odd: xs.sweep({"model": NAME, key_of(odd): [1], "device": "nowhere"}),
    "sweep's parameters": lambda odd: xs.sweep({"parameters": odd}, device="nowhere"),
    "sweep's folder": lambda odd: xs.sweep({"model": NAME}, results_dir=odd, device="nowhere"),
}
"""Calls that are refused for another reason where the odd value is a fine one."""


def key_of(odd: Any) -> Any:
    return odd if getattr(type(odd), "__hash__", None) else id(odd)


def refusal(call: Callable[[Any], Any], make: Callable[[], Any]) -> str:
    """The line that a call raises; what else it does, with names that do not raise themselves."""
    try:
        return f"returned {type(call(make())).__name__}"
    except xs.XlaSweepsError as error:
        line = str(error)
        return "" if line and len(line.splitlines()) == 1 and len(line) < 2_000 else line[:2_000]
    except (Exception, SystemExit) as error:
        return f"raised {type(error).__name__}"


@pytest.mark.parametrize("place", PLACES)
def test_an_odd_value_raises_one_line(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses = ("/bin/sh", "-c", "echo 'xla-sweeps: refused' >&2; exit 2")
    monkeypatch.setattr(supervisor, "python_command", lambda module, *words: (*refuses, *words))
    wrong = {name: refusal(PLACES[place], make) for name, make in ODD.items()}
    assert {name: line for name, line in wrong.items() if line} == {}
    assert not Path("results", "records").exists()


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "modes": (lambda: xs.measure(NAME, modes=any_of(3)), "modes: expected a list"),
    "NUL": (lambda: xs.measure("a\0b"), "null"),
    "key": (lambda: xs.sweep(any_of({3: [1]})), "expected names of options, not 3"),
    "definition": (lambda: xs.sweep(any_of(object())), "definition: expected a path"),
    "cycle": (lambda: xs.sweep({"model": NAME, "batch_size": cycle()}), "definition: "),
    "compare": (lambda: xs.compare("--help", "--help"), "--help"),
    "sweep": (lambda: xs.sweep("--help"), "--help"),
    "no inputs": (lambda: xs.measure("a.keras", []), "inputs: there is no array"),
    "no named inputs": (lambda: xs.explain("a.keras", {}), "inputs: there is no array"),
    "inputs": (lambda: xs.measure(NAME, [np.ones(2, np.longdouble)]), "unknown dtype in inputs"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_what_is_expected(name: str) -> None:
    call, words = REFUSED[name]
    assert words in complaint_of(call, kind=xs.XlaSweepsError)


def test_progress_is_switched_by_true_and_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    stage = {"event": "stage", "stage": "build"}
    for choice, shown in ((False, ""), ("none", ""), (True, "build"), ("auto", "build")):
        stream = io.StringIO()
        stream.isatty = lambda: True  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "stderr", stream)
        follower(choice)(stage)
        assert shown in stream.getvalue()
        assert bool(shown) is bool(stream.getvalue())


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([0.1, np.nan, 0.7], 0.0, 1.0),
        ([np.inf, 3.0, -np.inf], 0.0, 4.0),
        ([np.nan, np.nan], 0.0, 1.0),
        ([1e-3, 1.7e308], 0.0, 1e30),
        ([-1.7e308, 1.0], -1e30, 1.0),
        (np.ma.masked_equal([1.0, 5.0], 5.0), 0.0, 8.0),
        (np.array([6e4], np.float16), 0.0, 65504.0),
    ],
)
def test_values_that_are_not_finite_count_for_no_range(
    values: Any, low: float, high: float
) -> None:
    batch = values if hasattr(values, "dtype") else np.array(values)
    words = shipping.options_for("a.keras", batch, None, results_dir=Path("results"))
    assert [(one["low"], one["high"]) for one in words["input_spec"]] == [(low, high)]


def test_outputs_that_are_not_finite_are_compared_too() -> None:
    there = [np.array([1.0, np.nan, np.inf], np.float32)]
    shipped._compare(there, there, advice="")
    for here in ([1.0, np.nan, -np.inf], [1.0, 2.0, np.inf], [np.nan, np.nan, np.inf]):
        with pytest.raises(xs.XlaSweepsError, match="computes something else"):
            shipped._compare([np.array(here, np.float32)], there, advice="")


class Unsaved:
    """A model of Keras, as far as shipping it goes, until Keras is asked for something."""

    inputs = variables = non_trainable_variables = ()
    built = True

    def __init__(self, **does: Any) -> None:
        vars(self).update(does)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return np.ones(1)

    def _flatten_layers(self) -> tuple[()]:
        return ()


Unsaved.__mro__[0].__name__ = "Model"
Unsaved.__module__ = "keras.of_a_test"


def test_a_model_that_exits_or_a_full_disk_is_said_as_such() -> None:
    batch = np.ones((2, 3), "float32")
    full, leaving = OSError(errno.ENOSPC, "No space left on device"), SystemExit(3)
    with pytest.raises(xs.ConfigError, match=r"results_dir=results: .*No space left") as error:
        xs.measure(Unsaved(save=mock.Mock(side_effect=full)), batch)
    assert "give a function" not in str(error.value)
    with pytest.raises(xs.ConfigError, match=r"Keras cannot save it \(SystemExit: 3\)"):
        xs.measure(Unsaved(save=mock.Mock(side_effect=leaving)), batch)
    assert not list(Path("results", "models").iterdir())


def test_a_list_of_numbers_too_large_for_float32_is_a_batch() -> None:
    words = shipping.options_for("a.keras", [[[1.0, 1.7e308]]], None, results_dir=Path("results"))
    assert (words["input_spec"][0]["low"], words["input_spec"][0]["high"]) == (0.0, 1.0)
