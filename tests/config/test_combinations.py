"""Trials that `-m` asks for are counted before they are listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import own_model
from composed import complaint_of

from xla_sweeps.config import catalog
from xla_sweeps.config.combinations import choices
from xla_sweeps.config.own_folder import OwnFolder

MODELS = len(catalog.load_catalog())


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        (["model=vgg16"], [1]),
        (["~mine", "batch_size=1,2"], [1, 2]),
        (["seed=range(0,100)", "batch_size=range(1,101)"], [100, 100]),
        (["seed=range(0,1,0.0001)"], [10_000]),
        (["seed=sort(range(100,0,-1))"], [100]),
        (["seed=1,2", "seed=1,2"], [2]),
    ],
)
def test_as_many_trials_as_allowed_are_accepted(words: list[str], counts: list[int]) -> None:
    assert list(map(len, choices(words, None))) == counts


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["seed=range(0,10001)"], "-m: 10,001 trials are more than 10,000; give fewer values"),
        (["seed=range(0,101)", "batch_size=range(0,100)"], "-m: 10,100 trials are more than"),
        (["seed=shuffle(range(0,1e300,1e-300))"], "-m: more than 10^15 trials are more than"),
        (["seed=1,2", "batch_size=range(5,1)"], "batch_size=range(5,1): no value"),
        (["seed=range(0,3,0)"], "seed=range(0,3,0): expected finite bounds and a step that is not"),
        (["seed=range(0,inf)"], "seed=range(0,inf): expected finite bounds and a step that is not"),
        (["seed=interval(0,1)"], "seed=interval(0,1): -m takes values and ranges"),
        (["seed=1", "seed=2"], "conflicting overrides: 'seed=1' and 'seed=2'; give seed once"),
        (["seed=1,2", "+seed=3"], "conflicting overrides: 'seed=1,2' and '+seed=3'; give seed"),
        (["seed=(1"], "cannot read the override 'seed=(1'"),
        ([f"seed=range(0,{'9' * 5000})"], "cannot read the override 'seed=range(0,999"),
    ],
)
def test_no_trial_or_too_many_are_refused_with_their_number(words: list[str], line: str) -> None:
    assert complaint_of(choices, words, None).startswith(line)


@pytest.mark.parametrize(
    ("word", "expanded"),
    [
        ("model=glob(regnetx_00*)", "model=regnetx_002,regnetx_004,regnetx_006,regnetx_008"),
        ("model=glob(regnetx_00*, exclude=*4)", "model=regnetx_002,regnetx_006,regnetx_008"),
        ("model=glob([vgg1?,vit_b*],exclude=[*13,*32])", "model=vgg11,vgg16,vgg19,vit_b16,vit_b8"),
        ("effort=glob(*)", "effort=check,publish,quick,standard,starts"),
        ("+mine=glob(*)", "+mine=a,b"),
        ("model=glob(own*)", "model=own_net"),
    ],
)
def test_a_glob_stands_for_the_files_of_its_group_that_match(
    word: str, expanded: str, tmp_path: Path
) -> None:
    own = own_model(tmp_path, "own_net")
    (own / "mine").mkdir()
    for name in "ab":
        (own / "mine" / f"{name}.yaml").write_text("seed: 1\n")
    key, _, names = expanded.partition("=")
    assert choices([word, "batch_size=choice(1,2)", "~other"], OwnFolder(own)) == [
        [f"{key}={name}" for name in names.split(",")],
        ["batch_size=1", "batch_size=2"],
        ["~other"],
    ]


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("model=glob(local*)", f"model=glob(local*): matches none of the {MODELS} names of model"),
        ("seed=glob(*)", "seed=glob(*): glob takes a group of files: model=glob(…)"),
    ],
)
def test_a_glob_that_matches_nothing_is_refused(word: str, line: str) -> None:
    assert complaint_of(choices, [word], None).startswith(line)
