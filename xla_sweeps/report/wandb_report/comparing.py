"""Write a report's comparisons of models, devices, sizes and batches in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from xla_sweeps.analysis.overview import Overview, PodiumKey, overview, podium, podium_figure
from xla_sweeps.report.wandb_report.cells import (
    VERDICTS,
    geomean,
    interval,
    number,
    percent,
    times,
    who,
)
from xla_sweeps.report.wandb_report.markdown import escape, table
from xla_sweeps.schema.row import ComparisonRow, value_of

PODIUM_ROWS = 10
PODIUM_DEVICES = 4

PODIUMS: dict[PodiumKey, tuple[str, str]] = {
    "throughput": ("Throughput with XLA", "images/s"),
    "absolute_speedup": ("Throughput gained", "images/s more than graph mode"),
    "speedup_percent": ("Speedup", "% over graph mode"),
}


def where(found: Overview) -> str:
    """Families by geometric mean."""
    if not found.families:
        return "No family was measured."
    families = sorted(found.families, key=lambda item: -(item.geomean or 0.0))
    cells = [
        [
            escape(item.family),
            str(item.n),
            str(item.models),
            str(item.failed),
            times(item.geomean),
            interval(item.low, item.high),
            percent(item.share_slower),
        ]
        for item in families
    ]
    headings = ["family", "pairs", "models", "failed", "geometric mean", "95 %", "slower with XLA"]
    return (
        "Speedup of XLA over graph mode by model family; an interval needs three models.\n\n"
        f"{table(headings, cells, right=range(1, 7))}"
    )


def fastest(pairs: Sequence[ComparisonRow]) -> str:
    """The podiums of each device."""
    devices = sorted({row.trial.device for row in pairs})
    parts = ["Rows whose intervals overlap share a rank; a row without an interval has none."]
    for device in devices[:PODIUM_DEVICES]:
        parts.append(f"### {escape(device)}")
        parts += [_podium(pairs, key, device) for key in PODIUMS]
    if len(devices) > PODIUM_DEVICES:
        parts.append(
            f"{PODIUM_DEVICES} of {len(devices)} devices are shown here; the page has all."
        )
    return "\n\n".join(parts)


def _podium(rows: Sequence[ComparisonRow], key: PodiumKey, device: str) -> str:
    title, unit = PODIUMS[key]
    cells = []
    for rank, row in podium(rows, key, device=device, limit=PODIUM_ROWS):
        name, px, batch, _ = who(row)
        value, low, high = podium_figure(row, key)
        cells.append(
            [
                str(rank or "–"),
                name,
                px,
                batch,
                number(value),
                interval(low, high, number),
                VERDICTS[row.speedup.verdict],
            ]
        )
    headings = ["rank", "model", "px", "batch", unit, "95 %", "verdict"]
    return f"**{title}**\n\n{table(headings, cells, right=(0, 2, 3, 4, 5))}"


def flops(pairs: Sequence[ComparisonRow]) -> str:
    """What the panels over multiply-accumulates show."""
    counted = sum(row.trial.macs is not None for row in pairs)
    return (
        "Throughput over multiply-accumulates of one image, both logarithmic. If only arithmetic "
        f"mattered, the models would lie on one falling line. {counted:,} of {len(pairs):,} pairs "
        "have a count. The second run set contains MobileNets."
    )


def compare(pairs: Sequence[ComparisonRow]) -> str:
    """Devices, sizes and batches beside each other."""
    parts = []
    for title, field in (
        ("device", "device"),
        ("resolution, px", "resolution_px"),
        ("batch", "batch_size"),
        ("precision", "precision"),
        ("source", "source"),
    ):
        values = sorted({value_of(row, field) for row in pairs})
        if len(values) < 2:
            continue
        cells = []
        for value in values:
            found = overview([row for row in pairs if value_of(row, field) == value])
            slower = found.slower / found.pairs if found.pairs else None
            cells.append(
                [
                    escape(value),
                    str(found.pairs),
                    str(found.models),
                    str(found.failed),
                    geomean(found),
                    percent(slower),
                ]
            )
        parts.append(
            table(
                [title, "pairs", "models", "failed", "geometric mean (95 %)", "slower"],
                cells,
                right=range(1, 6),
            )
        )
    return (
        "\n\n".join(parts)
        or "These results have one device, one resolution, one batch size and one precision."
    )
