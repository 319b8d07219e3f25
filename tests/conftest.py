"""What several test modules share: running browsers, and pages of made-up studies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from browser import NAMES, Browser, find, started

if TYPE_CHECKING:
    from dashboard_page import Study


@pytest.fixture(scope="session", params=list(NAMES))
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """Each browser in turn; skipped where it is not installed."""
    if find(request.param) is None:
        pytest.skip(f"no {request.param}: tests/support/browsers.sh install")
    with started(request.param) as running:
        yield running


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Study]:
    """The page of so many made-up rows, made once."""
    # Here, because most tests need none of what it brings in.
    from dashboard_page import write_study

    folder = tmp_path_factory.mktemp("studies")
    made: dict[int, Study] = {}

    def make(count: int) -> Study:
        if count not in made:
            made[count] = write_study(folder / f"{count}.html", count)
        return made[count]

    return make
