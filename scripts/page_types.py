"""Write the types of what the package gives the page's scripts: its columns and its `PACKAGE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from xla_sweeps.report.dashboard.build import CATEGORIES, NUMBERS
from xla_sweeps.report.dashboard.derived import DERIVED_NUMBERS, DERIVED_TEXTS
from xla_sweeps.report.dashboard.page import PACKAGE


def main(folder: Path) -> None:
    """Write `facts.json`, from which tsc infers a type, and `package.d.ts`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "facts.json").write_text(json.dumps(PACKAGE), encoding="utf-8")
    names = {
        "TextColumn": (*CATEGORIES, *DERIVED_TEXTS),
        "NumberColumn": (*NUMBERS, *DERIVED_NUMBERS),
    }
    kinds = [f"type {kind} = {' | '.join(map(json.dumps, own))};" for kind, own in names.items()]
    lines = [*kinds, 'declare const PACKAGE: typeof import("./facts.json");', ""]
    (folder / "package.d.ts").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
