"""Inputs of one's own models that have names: each reaches the place of its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import keras
import pytest
from built_models import build, own

pytestmark = [pytest.mark.tf, pytest.mark.filterwarnings("ignore::UserWarning")]

NETS = """
import keras
from keras import layers

def shop():
    user = keras.Input((4,), dtype="int32", name="user")
    item = keras.Input((4,), dtype="int32", name="item")
    seen = [layers.Embedding(100, 3)(user), layers.Embedding(5000, 3)(item)]
    given = {"user": user, "item": item}
    return keras.Model(given, layers.Concatenate()([layers.Flatten()(one) for one in seen]))
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(NETS)
    yield
    keras.backend.clear_session()


def test_each_input_is_drawn_from_the_range_of_its_own_embedding() -> None:
    highs = {given.name: given.high for given in build(own("nets.py:shop")).inputs}
    assert highs == {"user": 100, "item": 5000}
