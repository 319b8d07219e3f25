"""The chaos script for a minute; by hand it runs for ten (`python tests/support/chaos.py`)."""

from __future__ import annotations

import pytest
from chaos import run


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_a_minute_of_chaos_neither_loses_nor_duplicates_a_record() -> None:
    report = run(60, 20261121, trials=300)
    assert report["lost"] == 0
