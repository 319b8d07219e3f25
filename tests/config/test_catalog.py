"""The catalog: every model of the published study, and how wrong requests are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from composed import complaint_of

from xla_sweeps.config import catalog
from xla_sweeps.errors import ConfigError

COUNTS = {
    "applications": (
        "ConvNeXt 5 · DenseNet 3 · EfficientNetV1 8 · EfficientNetV2 7 · Inception 2 · "
        "MobileNetV1 1 · MobileNetV2 1 · MobileNetV3 2 · NASNet 2 · RegNetX 12 · RegNetY 12 · "
        "ResNetRS 7 · ResNetV1 3 · ResNetV2 3 · VGG 2 · Xception 1"
    ),
    "keras_cv": (
        "BASNet 2 · CSPDarkNet 5 · DeepLabV3Plus 1 · DenseNet 6 · EfficientNetLite 10 · "
        "EfficientNetV1 16 · EfficientNetV2 14 · MiT 6 · MobileNetV3 4 · ResNetV1 10 · ResNetV2 "
        "10 · RetinaNet 1 · SegFormer 6 · VGG 2 · ViTDet 3 · VideoSwin 6 · YOLOv8 10"
    ),
    "keras_hub": (
        "BASNet 2 · CSPNet 4 · D-FINE 5 · DINOv2 3 · DINOv3 2 · DeepLabV3Plus 1 · DeiT 4 · "
        "DenseNet 3 · DepthAnything 2 · EfficientNetLite 1 · EfficientNetV1 6 · HGNetV2 7 · MiT 6 "
        "· MobileNetV3 2 · MobileNetV5 1 · ResNetV1 5 · ResNetV2 2 · RetinaNet 1 · SegFormer 6 · "
        "Swin 6 · VGG 4 · ViT 5 · ViTDet 3 · Xception 1"
    ),
    "hub": "DeiT 8 · MLP-Mixer 3 · Swin 9 · ViT 7",
}
"""Variants that must be there; a model may be added without a change here."""

ENTRIES = catalog.load_catalog()

ENTRY: dict[str, Any] = {
    "name": "mine",
    "family": "F",
    "variant": "V",
    "task": "classification",
    "resolution": 224,
    "min_resolution": 32,
    "sources": {"applications": {"library": "keras", "constructor": "ResNet50"}},
}


def of(source: str, **recipe: Any) -> dict[str, Any]:
    """A recipe of one source."""
    return {"sources": {source: {"constructor": "Net", **recipe}}}


def spec(document: dict[str, Any], **changes: Any) -> Any:
    return catalog.model_spec(
        document, **{"source": None, "resolution": None, "weights": "random", **changes}
    )


def refusal(document: dict[str, Any], **changes: Any) -> str:
    return complaint_of(spec, document, **changes)


@pytest.mark.parametrize("source", COUNTS)
def test_no_family_loses_a_variant_in_any_source(source: str) -> None:
    variants = Counter(entry.family for entry in ENTRIES.values() if source in entry.sources)
    for family, _, count in (each.rpartition(" ") for each in COUNTS[source].split(" · ")):
        assert variants[family] >= int(count), family


def test_a_file_is_named_as_its_model() -> None:
    files = (catalog.conf_dir() / "model").glob("*.yaml")
    assert {path.stem for path in files} == {*ENTRIES, "local"}


def test_aliases_are_unique_and_no_models_name() -> None:
    aliases = Counter(alias for entry in ENTRIES.values() for alias in entry.aliases)
    assert [alias for alias, count in aliases.items() if count > 1 or alias in ENTRIES] == []


def test_published_figures_name_their_source_and_sizes_divide() -> None:
    for entry in ENTRIES.values():
        for published in filter(None, map(entry.published_in, entry.sources)):
            assert 0.05 < published.params_million < 10_000, entry
            assert published.params_of in ("all", "trainable"), entry
            assert len(published.params_source) > 10, entry
            assert (published.gmacs is None) == (published.gmacs_source is None), entry
        assert entry.min_resolution <= entry.resolution, entry
        assert entry.resolution % entry.divisor == 0, entry
        assert entry.min_resolution % entry.divisor == 0, entry


@pytest.mark.parametrize("family", ["RegNetX", "RegNetY", "ResNetRS"])
def test_families_that_keras_3_dropped_come_from_tf_keras(family: str) -> None:
    entries = [entry for entry in ENTRIES.values() if entry.family == family]
    assert {entry.sources["applications"].library for entry in entries} == {"tf_keras"}


@pytest.mark.parametrize(
    ("name", "million"), [("regnetx_016", 9.2), ("regnetx_002", 2.7), ("regnety_016", 11.2)]
)
def test_regnet_names_match_their_recipes(name: str, million: float) -> None:
    entry = ENTRIES[name]
    constructor = entry.sources["applications"].recipe["constructor"]
    assert constructor == f"RegNet{name[6].upper()}{name[-3:]}"
    assert entry.published is not None
    assert entry.published.params_million == million


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("vgg", ["vgg11", "vgg13", "vgg16", "vgg16_backbone", "vgg19"]),
        ("regnety_00[48]", ["regnety_004", "regnety_008"]),
        ("efficient_s_v2", ["efficientnetv2s"]),
        ("XCEPTION", ["xception"]),
        ("nothing", []),
    ],
)
def test_models_are_found_by_part_glob_family_and_alias(pattern: str, names: list[str]) -> None:
    assert [entry.name for entry in catalog.find(pattern, ENTRIES.values())] == names


@pytest.mark.parametrize(
    ("given", "nearest"),
    [("efficientnetv2", "efficientnetv2"), ("efficient_s_v2", "efficientnetv2s")],
)
def test_an_unknown_model_is_refused_with_the_nearest_names_and_aliases(
    given: str, nearest: str
) -> None:
    text = str(catalog.unknown_model(given))
    assert text.startswith(f"unknown model '{given}'. Did you mean '{nearest}")
    assert text.endswith(f"`xla-sweeps models` lists all {len(ENTRIES)}.")


def test_a_resolution_below_the_models_minimum_is_refused_in_one_line() -> None:
    document = {**ENTRY, "name": "inception_v3", "min_resolution": 75, "resolution": 299}
    small = "resolution=64: too small for inception_v3, which needs at least 75 px (native: 299)"
    assert refusal(document, resolution=64) == small
    assert spec(document, resolution=75).resolution_px == 75


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sources": {}}, "sources is empty"),
        (of("applications", library="torch"), "library=torch: allowed are keras, tf_keras"),
        (of("applications", constructor="os.system"), "constructor=os.system: expected the name"),
        (of("applications", constructor="_x"), "constructor=_x: expected the name"),
        (of("kerascv"), "unknown source in model.sources 'kerascv'. Did you mean 'keras_cv'?"),
        (
            of("keras_cv", arguments={"backbone": {"constructor": "os.system", "arguments": {}}}),
            "model.sources.keras_cv.arguments.backbone.constructor=os.system",
        ),
        ({"resolution": "big"}, "model.resolution: Expected `int`, got `str`"),
        ({"resolution": True}, "model.resolution: Expected `int`, got `bool`"),
        ({"resolution": -1}, "model.resolution: Expected `int` >= 1"),
        ({"family": None}, "model.family: Expected `str`, got `null`"),
    ],
)
def test_a_malformed_entry_is_reported_with_its_place_and_reason(
    changes: dict[str, Any], reason: str
) -> None:
    said = refusal({**ENTRY, **changes})
    assert reason in said


def test_a_resolution_that_does_not_divide_is_refused_with_the_nearest_that_do() -> None:
    document = {**ENTRY, "name": "yolo", "resolution": 640, "min_resolution": 32, "divisor": 32}
    near = "resolution=230: yolo needs a multiple of 32 px; nearest: 224 and 256 (native: 640)"
    assert refusal(document, resolution=230) == near
    assert spec(document, resolution=224).inputs[0].shape == (224, 224, 3)


def test_a_source_may_require_more_pixels_than_the_others() -> None:
    sources = {**ENTRY["sources"], "keras_hub": {"constructor": "Net", "min_resolution": 96}}
    assert spec({**ENTRY, "sources": sources}, resolution=64).resolution_px == 64
    said = refusal({**ENTRY, "sources": sources}, source="keras_hub", resolution=64)
    assert "too small for mine from source=keras_hub, which needs at least 96 px" in said


def test_a_clip_has_frames() -> None:
    assert spec({**ENTRY, "task": "video", "frames": 8}).inputs[0].shape == (8, 224, 224, 3)


def test_a_saved_models_resolution_is_its_own_and_other_sources_are_named() -> None:
    hub = {"handle": "https://tfhub.dev/someone/net/1", "fixed_resolution": True}
    document = {**ENTRY, "sources": {"hub": hub, **ENTRY["sources"]}}
    assert spec(document).recipe == {"handle": "https://tfhub.dev/someone/net/1"}
    said = refusal(document, resolution=384)
    assert said == (
        "resolution=384: mine from source=hub runs at 224 px only; source=applications takes others"
    )


def test_figures_of_a_source_win_over_the_entrys() -> None:
    own = {"params_million": 5.7, "params_source": "its own metadata"}
    published = {"params_million": 5.9, "params_source": "the paper, table 1"}
    sources = {**ENTRY["sources"], "keras_hub": {"constructor": "Net", "published": own}}
    document = {**ENTRY, "sources": sources, "published": published}
    assert spec(document).published_params == pytest.approx(5.9e6)
    assert spec(document, source="keras_hub").published_params == pytest.approx(5.7e6)


@pytest.mark.parametrize(
    ("source", "weights", "reason"),
    [
        ("keras_cv", "imagenet", "no pretrained preset of mine is known for source=keras_cv"),
        ("keras_cv", "no/file.h5", "no such file; allowed: random, imagenet, or a preset's name"),
        ("hub", "nowhere", "no such file; allowed: random, imagenet, or the path of a SavedModel"),
    ],
)
def test_weights_are_checked_for_their_source(source: str, weights: str, reason: str) -> None:
    entry = {"handle": "https://tfhub.dev/x/1"} if source == "hub" else {"constructor": "Net"}
    said = refusal({**ENTRY, "sources": {source: entry}}, weights=weights)
    assert said.startswith(f"weights={weights}: {reason}")


def test_a_presets_name_is_checked_by_the_library_alone() -> None:
    document = {**ENTRY, "sources": {"keras_cv": {"constructor": "Net", "preset": "net_imagenet"}}}
    assert spec(document, weights="imagenet").weights == "imagenet"
    assert spec(document, weights="net_voc").weights == "net_voc"


def test_tensorflow_hubs_models_have_handles_and_their_own_resolution() -> None:
    entries = [entry for entry in ENTRIES.values() if "hub" in entry.sources]
    for entry in entries:
        hub = entry.sources["hub"]
        assert str(hub.recipe["handle"]).startswith("https://tfhub.dev/")
        assert hub.fixed_resolution
        assert entry.resolution == (384 if entry.name.endswith("_384") else 224)
    assert len({entry.sources["hub"].recipe["handle"] for entry in entries}) == len(entries) == 27


@pytest.mark.parametrize("read", [catalog.conf_dir, catalog.shipped_sweeps])
def test_a_package_without_its_files_is_told_to_be_installed(
    read: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_PACKAGE", tmp_path / "some.zip" / "xla_sweeps")
    with pytest.raises(ConfigError, match="is missing; install it with pip, since a zip file"):
        read()
