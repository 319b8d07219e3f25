"""Definitions composed into trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import ROOT

from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.identity import identify
from xla_sweeps.config.settings import to_settings
from xla_sweeps.schema.overrides import flattened, overrides
from xla_sweeps.schema.trial import request_id
from xla_sweeps.sweep.compose import Composer, Place
from xla_sweeps.sweep.definition import load_sweep
from xla_sweeps.sweep.search import expand
from xla_sweeps.system import devices, environment

PLACE = Place(devices.devices()[-1], devices.usable_cores())


@pytest.mark.parametrize(
    "path", sorted((ROOT / "sweeps").glob("*.yaml")), ids=lambda path: str(path.name)
)
def test_every_shipped_definition_composes_into_trials(path: Path) -> None:
    sweep = load_sweep(path)
    assert sweep.warnings == ()
    assert path.read_text().startswith("# "), "a line that says what it is for"
    composer = Composer([], places=[PLACE], environ={})
    keys = (
        {composer.task(values).key for values in expand(sweep)}
        if sweep.method != "bayes"
        else {"?"}
    )
    assert len(keys) == sweep.trials


@given(
    st.sampled_from(
        sorted(
            path.stem for path in (ROOT / "conf" / "model").glob("*.yaml") if path.stem != "local"
        )
    ),
    st.sampled_from(
        [
            {},
            {"jit": None},
            {"batch_size": 1, "seed": 3},
            {"effort": "standard"},
            {"effort": {"block_s": 0.1}},
        ]
    ),
)
@settings(max_examples=60, deadline=None)
def test_the_fast_composer_gives_the_same_as_hydra(model: str, values: dict[str, Any]) -> None:
    chosen = {"model": model, **values}
    task = Composer(["weights=random"], places=[PLACE], environ={}).task(chosen)
    words = [*overrides(flattened(chosen)), "weights=random"]
    assert list(task.words) == words
    composed = to_settings(
        compose_config(words), explicit={word.partition("=")[0] for word in words}, environ={}
    )
    assert task.key == identify(composed, environment.environment())
    assert task.request_id == request_id(composed.trial)


def test_a_sweep_shows_its_own_progress_whatever_a_trial_says_of_it() -> None:
    composer = Composer([], places=[PLACE], environ={})
    values = {"model": "resnet50", "ui": "quiet"}
    for task in (composer.task(values), composer.of_words(overrides(values))):
        assert task.words == ("model=resnet50",)
