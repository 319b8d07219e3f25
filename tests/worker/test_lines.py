"""The line of Python that is shown for something in a model."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from xla_sweeps.worker.lines import innermost_line

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
