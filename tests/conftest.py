"""Fixtures of several test modules: browsers, pages of made-up studies, a W&B server."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from browser import NAMES, Browser, find, started
from hypothesis import HealthCheck, settings
from site_settings import clean, heed_signals
from workers import ByGroup, place_of

from xla_sweeps.system.leases import LEASES

if TYPE_CHECKING:
    from dashboard_page import Study
    from wandb_server import WandbServer
    from xdist.remote import Producer


settings.register_profile(
    "tests",
    derandomize="FUZZ_EXAMPLES" not in os.environ,  # a change fails for what it changes
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tests")

clean(os.environ)
heed_signals()
os.umask(0o022)


@pytest.fixture(autouse=True)
def environment_restored() -> Iterator[None]:
    """What a command sets in this process for its own children is gone before the next test."""
    with mock.patch.dict(os.environ):
        yield


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup:
    """The schedule by which `scripts/test` distributes the tests."""
    return ByGroup(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """A test of the page runs in the first browser, and `each_browser` or `exhaustive` in all.

    What takes longest begins first.
    """
    for item in items:
        case = getattr(item, "callspec", None)
        if case is None or "browser" not in case.params or item.get_closest_marker("each_browser"):
            continue
        if case.params["browser"] != next(iter(NAMES)):
            item.add_marker(pytest.mark.exhaustive)
    yield
    items.sort(key=place_of)


@pytest.fixture(autouse=True)
def own_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of devices that no other test, and nobody's trial on this machine, waits for."""
    monkeypatch.setenv(LEASES, str(tmp_path / "leases"))


@pytest.fixture(scope="session", params=list(NAMES))
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """Each browser in turn; skipped where it is not installed."""
    if find(request.param) is None:
        pytest.skip(f"no {request.param}: tests/support/browsers.sh install")
    with started(request.param) as running:
        yield running


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Study]:
    """Makes a page of so many made-up rows, each once."""
    # Here, because most tests need none of its imports.
    from dashboard_page import write_study

    folder = tmp_path_factory.mktemp("studies")
    made: dict[int, Study] = {}

    def make(count: int) -> Study:
        if count not in made:
            made[count] = write_study(folder / f"{count}.html", count)
        return made[count]

    return make


@pytest.fixture(scope="module")
def composed_once() -> Iterator[None]:
    """Configurations of the same words are composed once in a module."""
    from composed import composed_once

    with composed_once():
        yield


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    """A W&B server that only this test uses; the environment points to it."""
    from wandb_server import log_in, wandb_server

    with wandb_server() as running:
        log_in(running, tmp_path / "home", monkeypatch)
        yield running
