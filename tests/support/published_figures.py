"""Files of published figures, as `xla-sweeps import` reads them."""

from __future__ import annotations

from paths import ROOT

from xla_sweeps.store.imported import COLUMNS

SAMPLE = ROOT / "xla_sweeps" / "store" / "published.csv"
"""The public study's two tables, which ship with the package."""

HEADER = ",".join(COLUMNS)


def text(*lines: str) -> str:
    return "\n".join([HEADER, *lines]) + "\n"


def line(
    variant: str, *, params: str = "5.0", flop: str = "1.0", xla: bool = True, rate: float = 100.0
) -> str:
    return f"Family,{variant},224,{xla},a100,{flop},{params},{rate}"
