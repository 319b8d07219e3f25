"""The distribution of tests among workers."""

from __future__ import annotations

import pytest
from browser import NAMES
from paths import ROOT
from workers import LONGEST, SINGLE, group_of


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("tests/a/test_b.py::test_c", "tests/a/test_b.py"),
        ("tests/a/test_b.py::test_c[firefox]", "firefox"),
        ("tests/a/test_b.py::test_c[chromium-1-x]", "chromium"),
        ("tests/a/test_b.py::test_chromium[no-browser]", "tests/a/test_b.py"),
        (f"{SINGLE[0]}::test_c[1]", f"{SINGLE[0]}::test_c[1]"),
    ],
)
def test_a_file_stays_with_a_worker_and_so_does_a_browser(name: str, group: str) -> None:
    assert group_of(name) == group


def test_what_begins_first_or_ends_the_run_is_there() -> None:
    files = [group for group in (*LONGEST, *SINGLE) if group not in NAMES]
    assert [path for path in files if not (ROOT / path).is_file()] == []
