"""Identity of models in memory: builders that differ in one thing differ, equal ones do not."""

from __future__ import annotations

import functools
import importlib
import random
import sys
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_sweeps as xs
from xla_sweeps.api import functions, shipping


def make(*sizes: Any, **named: Any) -> Any:
    return sizes, named


def folder_of(builder: Any, results: Path = Path("results")) -> Path:
    words = shipping.options_for(builder, None, None, results_dir=results)
    return Path(words["path"].rpartition(":")[0]).parent


@pytest.fixture(autouse=True)
def in_a_new_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def cell(text: str, number: int = 1, **names: Any) -> dict[str, Any]:
    """The names after a notebook's cell was run."""
    namespace = {"__name__": "__main__", **names}
    exec(compile(text, f"<ipython-input-{number}>", "exec"), namespace)
    return namespace


class Width:
    """An object that builds: by a method, and by itself."""

    def __init__(self, width: Any) -> None:
        self.width = width

    def build(self) -> Any:
        return make(self.width)

    def __call__(self) -> Any:
        return make(self.width)


class Slotted:
    __slots__ = ("width",)

    def __init__(self, width: Any) -> None:
        self.width = width

    def __call__(self) -> Any:
        return make(self.width)


@dataclass(frozen=True)
class Settings:
    width: int


class Named(list[int]):
    label = ""


def named(label: str) -> Named:
    one = Named([1])
    one.label = label
    return one


class Size(Enum):
    SMALL = 8
    LARGE = 512


def closure(held: Any) -> Callable[[], Any]:
    return lambda: make(held)


def looped(width: int) -> list[Any]:
    ring: list[Any] = [width]
    ring.append(ring)
    return ring


def in_globals(value: Any) -> Callable[[], Any]:
    names = cell("def build():\n    return make(SIZE)", make=make, SIZE=value)
    return names["build"]  # type: ignore[no-any-return]


def in_a_module_in_memory(value: Any) -> Callable[[], Any]:
    settings = types.ModuleType("settings_in_memory")
    settings.SIZE = value  # type: ignore[attr-defined]
    sys.modules["settings_in_memory"] = settings
    return closure(functools.partial(getattr, settings, "SIZE"))


TEXTS = {
    "nested function": """
def made(held):
    def outer():
        def inner(): return make(held)
        return inner()
    return outer
""",
    "recursion": """
def made(width):
    def again(n=3): return again(n - 1) if n else make(width)
    return again
""",
    "two functions that call each other": """
def made(width):
    def even(n=4): return odd(n - 1) if n else make(width)
    def odd(n): return even(n - 1)
    return even
""",
    "decorated function": """
import functools
def made(width):
    def inner(): return make(width)
    @functools.wraps(inner)
    def outer(): return inner()
    return outer
""",
    "default": """
def made(width):
    def build(sizes=(width,)): return make(sizes)
    return build
""",
    "keyword's default": """
def made(width):
    def build(*, sizes=(width,)): return make(sizes)
    return build
""",
    "attribute of a function": """
def made(width):
    def build(): return make(build.width)
    build.width = width
    return build
""",
    "class of its own": """
def made(width):
    class Builder:
        sizes = (width, [width])
        @staticmethod
        def plain(): return make(width)
        @property
        def wide(self): return make(width)
    return lambda: Builder().wide
""",
    "base class": """
def made(width):
    class Base:
        def size(self): return width
    class Builder(Base): pass
    return lambda: make(Builder().size())
""",
    "function of a called function": """
def made(width):
    names = dict(make=make)
    exec(f"def deeper(): return make({width})\\ndef helper(): return deeper()", names)
    exec("def build(): return helper()", names)
    return names["build"]
""",
    "global of an inner function": """
def made(width):
    names = dict(make=make, SIZE=width)
    exec("def build(): return (lambda: [make(SIZE) for _ in range(2)])()", names)
    return names["build"]
""",
}
"""Functions that make a builder of a width."""


def builder_of(text: str) -> Callable[[int], Any]:
    return cell(text, make=make)["made"]  # type: ignore[no-any-return]


MAKERS: dict[str, Callable[[int], Any]] = {
    "partial": lambda n: functools.partial(make, [n]),
    "partial, lengths": lambda n: functools.partial(make, [8] * n),
    "partial, keyword": lambda n: functools.partial(make, width=n),
    "partial of a partial": lambda n: functools.partial(functools.partial(make, n), 1),
    "bound method": lambda n: Width(n).build,
    "bound method, list": lambda n: Width([n]).build,
    "object": Width,
    "object, nested": lambda n: Width({"sizes": [Width((n,))]}),
    "object with slots": Slotted,
    "subclass of list": lambda n: closure(named(f"{n}")),
    "closure, list": lambda n: closure([n]),
    "closure, dict": lambda n: closure({"a": {"b": n}}),
    "closure, dict's key": lambda n: closure({n: 1}),
    "closure, set": lambda n: closure({n, "a", "b"}),
    "closure, tuple": lambda n: closure((n, (n,))),
    "closure, number": closure,
    "closure, float": lambda n: closure(n / 7),
    "closure, bytes": lambda n: closure(b"x" * n),
    "closure, array": lambda n: closure(np.full(3, n)),
    "closure, array's last value": lambda n: closure(np.array([0] * 5000 + [n])),
    "closure, array's shape": lambda n: closure(np.zeros((n, 512 * 8 // n))),
    "closure, array's type": lambda n: closure(np.zeros(3, f"float{32 if n == 8 else 64}")),
    "closure, array of objects": lambda n: closure(np.array([[n], "a"], dtype=object)),
    "closure, masked array": lambda n: closure(np.ma.masked_equal([8, 512], n)),
    "closure, dtype": lambda n: closure(np.dtype("float32" if n == 8 else "float16")),
    "closure, generator of numbers": lambda n: closure(np.random.default_rng(n)),
    "closure, random": lambda n: closure(random.Random(n)),
    "closure, path": lambda n: closure(Path(f"{n}")),
    "closure, range": lambda n: closure(range(n)),
    "closure, slice": lambda n: closure(slice(n)),
    "closure, dataclass": lambda n: closure(Settings(n)),
    "closure, enum": lambda n: closure(Size(n)),
    "closure, namespace": lambda n: closure(types.SimpleNamespace(width=n)),
    "closure, mapping proxy": lambda n: closure(types.MappingProxyType({"width": n})),
    "closure, function": lambda n: closure(closure([n])),
    "closure, class": lambda n: closure(type("Sized", (), {"width": n})),
    "closure, built-in": lambda n: closure(min if n == 8 else max),
    "closure, method of a built-in": lambda n: closure([n].index),
    "closure, one object twice": lambda n: closure((one := Width(1), one if n == 8 else Width(1))),
    "closure, ring": lambda n: closure(looped(n)),
    "two on a line": lambda n: [lambda: make(8), lambda: make(512)][n == 512],
    "global number": in_globals,
    "global list": lambda n: in_globals([n]),
    "global array": lambda n: in_globals(np.arange(n)),
    "global object": lambda n: in_globals(Width([n])),
    **{name: builder_of(text) for name, text in TEXTS.items()},
    "module in memory": in_a_module_in_memory,
}


@pytest.mark.parametrize("name", MAKERS)
def test_builders_that_differ_in_one_thing_are_different_models(name: str) -> None:
    maker = MAKERS[name]
    first = folder_of(maker(8))
    content = (first / "code.pickle").read_bytes()
    assert folder_of(maker(512)) != first
    assert (first / "code.pickle").read_bytes() == content
    assert folder_of(maker(8)) == first, "the same one again"


CELL = """
from xla_sweeps.schema.trial import Trial
SIZES = {"a", "b", "c", 8}
class Layer:
    width = 8
    def __init__(self, *sizes): self.sizes = sizes
    def build(self): return make(self.sizes, self.width, Trial, *SIZES)
def helper(n=3): return helper(n - 1) if n else Layer(8).build()
build = lambda: helper()
"""


def test_a_cell_that_is_run_again_gives_the_same_model() -> None:
    first = folder_of(cell(CELL, 1, make=make)["build"])
    assert folder_of(cell(CELL, 2, make=make)["build"]) == first
    for old, new in (("width = 8", "width = 9"), ("n=3", "n=4"), ("*SIZES", "SIZES"), ("8}", "9}")):
        assert folder_of(cell(CELL.replace(old, new), 1, make=make)["build"]) != first, new


def test_a_helper_that_is_defined_again_gives_another_model() -> None:
    names = cell("def helper(): return make(8)\nbuild = lambda: helper()", make=make)
    first = folder_of(names["build"])
    exec("def helper(): return make(512)", names)
    assert folder_of(names["build"]) != first


@pytest.fixture
def helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Write and load a module of the user's own, with one beside it that is not loaded."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(text: str, name: str = "own_helpers") -> Any:
        (tmp_path / f"{name}.py").write_text(text)
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield write
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    "build",
    [
        "import own_helpers\nbuild = lambda: own_helpers.make()",
        "from own_helpers import make as build",
        "from own_helpers import make\nbuild = lambda: make()",
        "import own_helpers\nbuild = lambda: getattr(own_helpers, 'make')()",
        "def build():\n    from own_helpers import make\n    return make()",
        "def build():\n    import own_outer\n    return own_outer.make()",
        "from own_helpers import Maker\nbuild = Maker().build",
        "from own_helpers import cached\nbuild = lambda: cached()",
    ],
)
def test_a_module_of_the_user_s_own_counts(build: str, helpers: Callable[[str], Any]) -> None:
    text = (
        "import functools\nSIZE = 8\ndef make(): return SIZE\n"
        "class Maker:\n    def build(self): return make()\n"
        "@functools.cache\ndef cached(): return make()\n"
    )
    Path("own_outer.py").write_text("from own_helpers import make\n")
    helpers(text)
    first = folder_of(cell(build)["build"])
    helpers(text)
    assert folder_of(cell(build)["build"]) == first
    helpers(text.replace("8", "512"))
    assert folder_of(cell(build)["build"]) != first


def test_what_an_importable_function_reads_need_not_be_shippable(
    helpers: Callable[[str], Any],
) -> None:
    module = helpers(
        "import threading\nLOCK = threading.Lock()\ndef make():\n    with LOCK: pass\n"
    )
    assert folder_of(module.make) == folder_of(module.make)


def test_a_folder_of_other_bytes_is_never_overwritten_nor_used() -> None:
    builder = functools.partial(make, [8])
    folder = folder_of(builder)
    planted = folder / "code.pickle"
    own = planted.read_bytes()
    planted.write_bytes(b"planted")
    other = folder_of(builder)
    assert planted.read_bytes() == b"planted"
    assert (other / "code.pickle").read_bytes() == own
    assert other != folder
    assert folder_of(builder) == other
    assert (other / "model.py").read_bytes() == (folder / "model.py").read_bytes(), "one trial"


def test_a_model_whose_files_were_replaced_has_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(words: Any, show: Any) -> Any:
        (file,) = Path("results").glob("models/*/code.pickle")
        file.write_bytes(b"another")
        return {"summary": None, "exit_code": 0}, ()

    monkeypatch.setattr(functions, "_follow_command", replace)
    with pytest.raises(xs.XlaSweepsError, match="its files were replaced while the model was"):
        xs.measure(functools.partial(make, [8]))


def test_no_link_in_a_results_folder_is_followed(tmp_path: Path) -> None:
    victim, elsewhere = tmp_path / "victim", tmp_path / "elsewhere"
    victim.write_text("kept")
    elsewhere.mkdir()
    builder = functools.partial(make, [8])
    own = folder_of(builder)
    other = Path("planted", "models", own.name)
    other.mkdir(parents=True)
    for name in ("model.py", "code.pickle", "path.json"):
        (other / name).symlink_to(victim)
        (other / f".{name}.part").symlink_to(victim)
    shipped = folder_of(builder, Path("planted"))
    assert (shipped / "code.pickle").read_bytes() == (own / "code.pickle").read_bytes()
    assert not any(file.is_symlink() for file in (shipped, *shipped.iterdir()))
    Path("linked", "models").mkdir(parents=True)
    Path("linked", "models", own.name).symlink_to(elsewhere)
    assert not folder_of(builder, Path("linked")).is_symlink()
    Path("whole").mkdir()
    Path("whole", "models").symlink_to(elsewhere)
    with pytest.raises(xs.XlaSweepsError, match="models is a link") as error:
        folder_of(builder, Path("whole"))
    assert "\n" not in str(error.value)
    assert victim.read_text() == "kept"
    assert not list(elsewhere.iterdir())


def test_threads_ship_their_own_models() -> None:
    folders: dict[int, set[Path]] = {}

    def ship(width: int) -> None:
        folders[width] = {folder_of(functools.partial(make, [width])) for _ in range(20)}

    threads = [threading.Thread(target=ship, args=(width % 4,)) for width in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set.union(*folders.values())) == 4
    assert {len(each) for each in folders.values()} == {1}
    assert not list(Path("results/models").glob(".*")), "no file is left over"


def dense(units: list[int]) -> Any:
    """A model of as many layers; it is built in the measuring process."""
    keras = importlib.import_module("keras")
    layers = [keras.layers.Dense(count) for count in units]
    return keras.Sequential([keras.Input((4,)), *layers])


@pytest.mark.tf
@pytest.mark.slow
@pytest.mark.exhaustive
def test_two_threads_measure_their_own_models() -> None:
    params: dict[int, int | None] = {}
    short: dict[str, Any] = {"effort.rounds_max": 10, "effort.block_s": 0.002}

    def measure(units: int) -> None:
        builder, batch = functools.partial(dense, [units] * 2), np.ones((2, 4), "float32")
        trial = xs.measure(builder, batch, modes="graph", device="cpu", **short)
        params[units] = trial.rows[0].trial.params

    threads = [threading.Thread(target=measure, args=(units,)) for units in (3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert params == {3: (4 + 1) * 3 + (3 + 1) * 3, 5: (4 + 1) * 5 + (5 + 1) * 5}
