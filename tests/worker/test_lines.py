"""The line of Python that is shown for something in a model."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

from xla_sweeps.worker.lines import innermost_line, users_line

LIBRARIES = Path(sysconfig.get_path("purelib"))

KERAS = (str(LIBRARIES / "keras/src/layers/layer.py"), 9)


def test_the_innermost_line_outside_of_packages_is_the_users(tmp_path: Path) -> None:
    outer, inner = (str(tmp_path / "outer.py"), 1), (str(tmp_path / "net.py"), 3)
    assert innermost_line([outer, inner, KERAS]) == f"{tmp_path / 'net.py'}:3"


def test_a_framework_has_a_line_only_where_it_is_asked_for() -> None:
    library = (str(LIBRARIES / "somebodys/net.py"), 5)
    assert innermost_line([KERAS]) == innermost_line([("<string>", 3), KERAS]) == ""
    assert innermost_line([KERAS], frameworks=True) == "keras/src/layers/layer.py:9"
    assert innermost_line([library, KERAS], frameworks=True) == "somebodys/net.py:5"


def test_an_error_has_the_innermost_line_of_the_user_and_none_of_the_programs(
    tmp_path: Path,
) -> None:
    code = "def call(x):\n    return x[0]\n"
    space: dict[str, Any] = {}
    (tmp_path / "net.py").write_text(code)
    exec(compile(code, str(tmp_path / "net.py"), "exec"), space)
    with pytest.raises(TypeError) as caught:
        space["call"](None)
    assert users_line(caught.value) == f"{tmp_path / 'net.py'}:2"
    own = (str(ROOT / "xla_sweeps" / "worker" / "replicate.py"), 88)
    assert innermost_line([own]) == ""
