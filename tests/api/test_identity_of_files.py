"""Identities of builders that import modules of the user's own, or open a model's file."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import ROOT

from xla_sweeps.api import shipping
from xla_sweeps.api.identity import digest_of


def digest(builder: Any) -> str:
    return digest_of(builder, lambda value: None)


def cell(text: str) -> dict[str, Any]:
    """The names after a notebook's cell was run."""
    names = {"__name__": "__main__"}
    exec(compile(text, "<ipython-input-1>", "exec"), names)
    return names


Write = Callable[[dict[str, str]], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write modules below the folder that is imported from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(texts: dict[str, str]) -> None:
        for name, text in texts.items():
            file = tmp_path / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        importlib.invalidate_caches()

    yield write
    forget(tmp_path)


def forget(folder: Path) -> None:
    """Forget the modules that were imported from a folder."""

    def places(module: Any) -> list[str]:
        return [str(getattr(module, "__file__", "")), *map(str, getattr(module, "__path__", []))]

    inside = {
        name
        for name, module in list(sys.modules.items())
        if any(place.startswith(str(folder)) for place in places(module))
    }
    for name in inside:
        del sys.modules[name]


LAYOUTS = {
    "import own_outer\n    own_outer.make()": {"own_outer": "from own_deep import make"},
    "from own_pkg import blocks\n    blocks.make()": {"own_pkg/blocks": "from own_deep import *"},
    "import own_pkg\n    own_pkg.make()": {
        "own_pkg/__init__": "from .blocks import make",
        "own_pkg/blocks": "import own_deep\nmake = own_deep.make",
    },
    "from own_pkg.inner import top\n    top.make()": {
        "own_pkg/__init__": "",
        "own_pkg/inner/__init__": "",
        "own_pkg/inner/top": "from ..blocks import make",
        "own_pkg/blocks": "def make():\n    import own_deep\n    return own_deep.SIZE",
    },
    "from own_space.inner import top\n    top.make()": {
        "own_space/inner/top": "from ..blocks import make",
        "own_space/blocks": "from own_deep import make",
    },
}


@pytest.mark.parametrize("code", LAYOUTS)
def test_all_files_that_a_function_s_import_leads_to_count(code: str, write: Write) -> None:
    text = "SIZE = 8\ndef make(): return SIZE\n"
    write({**LAYOUTS[code], "own_deep": text})
    build = cell(f"def build():\n    {code}")["build"]
    first = digest(build)
    build()
    assert digest(build) == first, "whether they are loaded or not"
    write({"own_deep": text.replace("8", "512")})
    assert digest(build) != first, "those in memory are as they were"
    forget(Path.cwd())
    assert digest(build) != first


@pytest.mark.parametrize("reloaded", [True, False])
@pytest.mark.parametrize(
    "hold",
    [lambda module: lambda: module.make(), lambda module: module.build, lambda module: module.Net],
)
def test_a_module_that_is_held_counts_with_what_it_imports(
    hold: Callable[[Any], Any], reloaded: bool, write: Write
) -> None:
    imports = "from own_deep import SIZE, make\n"
    code = "def build(): return SIZE\nclass Net:\n    def call(self): return SIZE\n"
    deep = "SIZE = 8\ndef make(): return SIZE\n"
    write({"own_deep": deep, "own_outer": imports + code})
    first = digest(hold(importlib.import_module("own_outer")))
    write({"own_deep": deep.replace("8", "9")})
    if reloaded:
        forget(Path.cwd())
    assert digest(hold(importlib.import_module("own_outer"))) != first


def test_other_modules_of_a_package_do_not_count(write: Write) -> None:
    write({"own_space/mod": "def make(): return 8\n", "own_space/other": ""})
    build = cell("import own_space.mod\nbuild = lambda: own_space.mod.make()")["build"]
    first = digest(build)
    importlib.import_module("own_space.other")
    importlib.invalidate_caches()
    assert digest(build) == first


def test_functions_of_one_cell_or_of_two_are_the_same() -> None:
    helper, build = "def helper(n): return n in {'a', 'b'}, (n, 3.5)\n", "def build(n): return "
    build += "n in {'a', 'b'}, (n, 3.5), helper\n"
    names = cell(helper)
    exec(build, names)
    assert digest(names["build"]) == digest(cell(helper + build)["build"])


SHOWN = """
import sys
sys.path[:0] = [{root!r}, '.']
from xla_sweeps.api import shipping
from xla_sweeps.api.identity import digest_of
import own_net
print(digest_of(own_net.build, lambda value: None))
"""

NET = """
import enum
from dataclasses import dataclass, field
from typing import NamedTuple
NAMES = {"conv", "dense", "pool", "norm"}
class Kind(enum.Enum):
    SMALL = 1
@dataclass
class Block:
    name: str
    sizes: list = field(default_factory=lambda: [3, 3])
class Shape(NamedTuple):
    side: int = 3
def helper(name): return Block(name), name in {"conv", "dense", "pool"}, (3, "a")
def build(): return [helper(name) for name in sorted(NAMES)], Shape(), Kind.SMALL, (3, "a")
"""


def test_another_process_gives_the_same_digest(write: Write) -> None:
    write({"own_net": NET})
    given = [sys.executable, "-c", SHOWN.format(root=str(ROOT))]
    shown = {
        subprocess.run(
            given, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1", "2")  # the first writes bytecode, which the others load
    }
    assert len(shown) == 1


@pytest.mark.parametrize("name", ["own.keras", "saved", "weights.npz"])
def test_a_model_s_file_that_the_code_names_counts(name: str, write: Write) -> None:
    file = Path(name, "saved_model.pb") if name == "saved" else Path(name)
    file.parent.mkdir(exist_ok=True)
    builders: list[Any] = [cell(f"build = lambda: open({name!r})")["build"]]
    builders.append(lambda path=Path(name): path)
    file.write_bytes(b"1")
    first = list(map(digest, builders))
    assert list(map(digest, builders)) == first
    file.write_bytes(b"2")
    assert not {*map(digest, builders)} & {*first}


class Labelled:
    """An array with more than its values."""

    def __init__(self, label: str) -> None:
        self.label = label

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.zeros(2)


def test_an_array_counts_with_its_layout_and_its_own_attributes() -> None:
    plain = np.ones((3, 4))
    assert digest(partial(len, plain)) == digest(partial(len, plain.copy()))
    assert digest(partial(len, plain)) != digest(partial(len, np.asfortranarray(plain)))
    assert digest(Labelled("a")) == digest(Labelled("a"))
    assert digest(Labelled("a")) != digest(Labelled("b"))


HELD = """
import os
SIZE: int = 8
WIDTHS, KINDS = [1, 2], {}
KINDS[SIZE] = os.getpid()
PLACE = os.getpid()
KIND = "cpu"
if PLACE:
    KIND = str(PLACE)
def width():
    return 10
def decorate(made):
    return lambda: made()
@decorate
def widths():
    return WIDTHS
def make():
    return [SIZE, *widths(), width(), PLACE == KINDS[8] and KIND == str(PLACE)]
"""


@pytest.mark.parametrize("text", ["import own_held\nbuild = own_held.make", "BY_MODULE"])
def test_what_was_set_in_memory_in_a_module_is_measured_and_not_what_its_file_has(
    text: str, write: Write, tmp_path: Path
) -> None:
    by_module = "import own_held\ndef build(value=None):\n    return own_held.make()"
    write({"own_held": HELD})
    names = cell(by_module if text == "BY_MODULE" else text)
    before = digest(names["build"])
    held = sys.modules["own_held"]
    vars(held).update(SIZE=512, WIDTHS=(3.0, 4), width=cell("def width(): return 20")["width"])
    assert digest(names["build"]) != before
    path = shipping.options_for(names["build"], None, None, results_dir=tmp_path)["path"]
    script = (
        "import sys; from pathlib import Path\n"
        "from xla_sweeps.backends.tensorflow.sources import shipped\n"
        "print(shipped.load(Path(sys.argv[1]).parent))"
    )
    command = [sys.executable, "-c", script, path.removesuffix(":build")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.splitlines()[-1:] == ["[512, 3.0, 4, 20, True]"], done.stderr
