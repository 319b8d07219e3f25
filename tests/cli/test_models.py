"""The commands `models` and `hub-replicas`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from commands import in_terminal, own_model
from in_process import command

from xla_sweeps.config.catalog import load_catalog
from xla_sweeps.system.installation import how_to_install


def test_models_lists_the_catalog_and_finds_in_it(tmp_path: Path) -> None:
    everything = command("models", cwd=tmp_path).stdout
    assert f"{len(load_catalog())} models" in everything
    assert "regnetx_016" in everything
    shown = command("models", "vgg*", cwd=tmp_path).stdout
    assert "5 models" in shown
    assert "resnet50" not in shown


def test_models_shows_one_model_with_what_each_source_builds(tmp_path: Path) -> None:
    shown = command("models", "efficientnetv2s", cwd=tmp_path).stdout
    for part in (
        "keras: EfficientNetV2S",
        "keras_cv: ImageClassifier",
        how_to_install("keras-cv"),
        "384 px",
    ):
        assert part in shown


def test_models_are_given_as_data(tmp_path: Path) -> None:
    everything = json.loads(command("models", "--format", "json", cwd=tmp_path).stdout)
    assert [entry["name"] for entry in everything] == list(load_catalog())
    (one,) = json.loads(command("models", "vit_b16", "--format", "json", cwd=tmp_path).stdout)
    assert (one["sources"], one["resolution_px"], one["gmacs"]) == ("keras_hub hub", 224, 17.58)
    lines = csv.DictReader(io.StringIO(command("models", "--format=csv", cwd=tmp_path).stdout))
    given = {key: "" if value is None else str(value) for key, value in one.items()}
    assert given in list(lines)


def test_the_catalog_is_whole_in_a_terminal_of_80_columns_and_in_a_pipe(tmp_path: Path) -> None:
    figures = [
        (entry.name, f"{entry.published.gmacs:g}")
        for entry in load_catalog().values()
        if entry.published and entry.published.gmacs
    ]
    shown = in_terminal("models", cwd=tmp_path, columns=80)
    assert max(map(len, shown)) <= 80
    piped = command("models", cwd=tmp_path, COLUMNS="").stdout.splitlines()
    for lines in (shown, piped):
        assert "…" not in "".join(lines)
        words = [line.split() for line in lines]
        for name, gmacs in figures:
            assert any(line[:1] == [name] and line[-1] == gmacs for line in words), name
    (wide,) = [line for line in piped if line.split()[:1] == ["efficientnetv2s"]]
    assert " EfficientNetV2S " in wide


def test_a_narrow_terminal_gets_fewer_columns_and_whole_figures(tmp_path: Path) -> None:
    narrow = command("models", "mobilenet", cwd=tmp_path, COLUMNS="60").stdout.splitlines()
    assert max(map(len, narrow)) <= 60
    assert any(line.split() == ["mobilenet_v2", "224", "3.50", "0.3"] for line in narrow)
    shown = in_terminal("models", "vit_b16", cwd=tmp_path, columns=80)
    assert max(map(len, shown)) <= 80
    assert "keras_hub:" in "".join(shown)


def test_models_of_ones_own_are_listed_among_the_catalogs(tmp_path: Path) -> None:
    own_model(tmp_path, "own_net")
    place = ("--config-dir", "own")
    assert f"{len(load_catalog()) + 1} models" in command("models", *place, cwd=tmp_path).stdout
    assert "keras: MobileNetV2" in command("models", "own_net", *place, cwd=tmp_path).stdout
    assert command("models", "own_net", cwd=tmp_path).returncode == 2


def test_hub_replicas_lists_the_known_handles_and_refuses_others(tmp_path: Path) -> None:
    cache = {"XLA_SWEEPS_CACHE": str(tmp_path / "cache")}
    listed = command("hub-replicas", "--list", "vit_*", cwd=tmp_path, **cache, code=0)
    assert listed.stdout.count("not built") == 7
    assert f"0 of 7 built, 0 MiB, in {tmp_path}/cache/replicas/v1" in " ".join(
        listed.stdout.split()
    )
