"""The chaos script for a few seconds.

By hand it runs for ten minutes (`python tests/support/chaos.py`).
"""

from __future__ import annotations

import pytest
from chaos import run


@pytest.mark.slow
def test_a_few_seconds_of_chaos_neither_lose_nor_duplicate_a_record() -> None:
    report = run(4, 20261121, trials=30)
    assert report["lost"] == 0
