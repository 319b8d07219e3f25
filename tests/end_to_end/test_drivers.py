"""Several drivers on one sweep, with the real command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import is_clean, race


@pytest.mark.exhaustive
@pytest.mark.parametrize("drivers", [2, 4])
def test_drivers_share_a_sweep_without_a_false_death_or_a_second_measurement(
    drivers: int, tmp_path: Path
) -> None:
    result = race(tmp_path, drivers=drivers, trials=3, seconds=2.0)
    assert is_clean(result), result
