"""What the file of a module writes down for its names, and what it computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xla_sweeps.api.written import DEFINED, written_in

FILE = """
import os
from settings import SIZE
SIDE: int = 8
A = B = "relu"
LOW, HIGH = 0, [1, 2]
PLACE = os.getcwd()
KIND = "cpu"
if PLACE:
    KIND = "gpu"
COUNT = 0
CACHE, PATHS, GIVEN = {}, [], [3]
PATHS.append(PLACE)
def build(COUNT=1):
    global COUNTED
    A = 3
    CACHE["net"] = GIVEN[0]
    return [LOW for LOW in range(3)]
@decorate
def made(): ...
class Net: ...
COUNTED = 1
try:
    import fast as SLOW
except ImportError:
    SLOW = None
"""


def test_a_value_that_a_file_computes_imports_or_changes_is_not_written_down(
    tmp_path: Path,
) -> None:
    file = tmp_path / "own.py"
    file.write_text(FILE)
    known = {"SIDE": 8, "A": "relu", "B": "relu", "LOW": 0, "HIGH": [1, 2], "COUNT": 0}
    known |= {"GIVEN": [3], "build": DEFINED, "Net": DEFINED}
    assert written_in(file, {}) == known


@pytest.mark.parametrize("text", [b"def", b"X = 1\nfrom local import *", b"\xff"])
def test_of_a_file_that_cannot_be_known_nothing_is(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_bytes(text)
    assert written_in(tmp_path / "own.py", {}) == {}
    assert written_in(None, {}) == written_in(tmp_path / "none.py", {}) == {}


def test_of_a_file_whose_functions_were_edited_since_nothing_is_known(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    held: dict[str, Any] = {"__name__": "own"}
    text = "SIZE = 8\ndef build():\n    return [SIZE for _ in range(3)]\n"
    exec(compile(text, str(file), "exec"), held)
    for _ in range(100):
        held["build"]()  # which Python makes faster meanwhile
    file.write_text(text.replace("8", "9"))
    assert written_in(file, held) == {"SIZE": 9, "build": DEFINED}
    file.write_text(text.replace("3", "4"))
    assert written_in(file, held) == {}
