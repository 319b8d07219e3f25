"""The committed chart library: as it was built, inlinable, with its licences."""

from __future__ import annotations

import hashlib
import json
from importlib import resources

ASSETS = resources.files("xla_sweeps.report.dashboard") / "assets"

BUNDLE = (ASSETS / "echarts.min.js").read_bytes()

BUILT = json.loads((ASSETS / "echarts.json").read_bytes())


def test_the_library_is_byte_for_byte_the_one_that_was_built() -> None:
    assert hashlib.sha256(BUNDLE).hexdigest() == BUILT["sha256"]


def test_the_library_can_be_inlined_in_a_page() -> None:
    assert b"</script" not in BUNDLE.lower()
    assert b"<!--" not in BUNDLE
    assert b"new Function" not in BUNDLE
    assert b"\nvar echarts=" in BUNDLE
    BUNDLE.decode("utf-8")


def test_notices_are_at_the_head_and_the_licences_beside_the_library() -> None:
    head = BUNDLE[:600].decode()
    assert head.startswith(f"/*! Apache ECharts {BUILT['echarts']}")
    for name in (
        "The Apache Software Foundation",
        "Baidu Inc.",
        "Microsoft Corporation",
        "Apache-2.0",
        "BSD-3-Clause",
    ):
        assert name in head
    licences = {item.name: item.read_text() for item in (ASSETS / "licenses").iterdir()}
    begins = {
        "echarts.LICENSE": "Apache License",
        "echarts.NOTICE": "Apache ECharts",
        "zrender.LICENSE": "BSD 3-Clause License",
        "tslib.LICENSE": "Copyright (c) Microsoft",
        "d3.LICENSE": "Mike Bostock",
    }
    assert {
        name for name, words in begins.items() if words in licences[name][:400]
    } == begins.keys()
