"""The committed chart library: as it was built, inlinable, with its licences."""

from __future__ import annotations

import hashlib
import json
from importlib import resources

ASSETS = resources.files("xla_sweeps.report.dashboard") / "assets"

BUNDLE = (ASSETS / "plot.min.js").read_bytes()

BUILT = json.loads((ASSETS / "plot.json").read_bytes())


def test_the_library_is_byte_for_byte_the_one_that_was_built() -> None:
    assert hashlib.sha256(BUNDLE).hexdigest() == BUILT["sha256"]


def test_the_library_can_be_inlined_in_a_page() -> None:
    assert b"</script" not in BUNDLE.lower()
    assert b"<!--" not in BUNDLE
    assert b"new Function" not in BUNDLE
    assert b"eval(" not in BUNDLE
    assert b"\nvar Plot=" in BUNDLE
    BUNDLE.decode("utf-8")


def test_notices_are_at_the_head_and_every_licence_beside_the_library() -> None:
    head = BUNDLE[:600].decode()
    assert head.startswith(f"/*! Observable Plot {BUILT['versions']['@observablehq/plot']}")
    for name in ("Observable, Inc.", "Mike Bostock", "ISC"):
        assert name in head
    texts = (ASSETS / "licenses" / "plot.LICENSES").read_text(encoding="utf-8")
    for name, version in BUILT["versions"].items():
        assert f"{name} {version} (" in texts
    assert texts.count("Copyright") >= len(BUILT["versions"])
