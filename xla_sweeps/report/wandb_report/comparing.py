"""Write a report's comparisons of models, devices, sizes and batches in Markdown. Pure.

A mean is over pairs of one setting, and so is a ranking.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_sweeps.analysis.overview import Overview, geometric_mean, overview
from xla_sweeps.analysis.podium import PodiumKey, podium, podium_figure
from xla_sweeps.report.wandb_report.cells import (
    NONE,
    VERDICTS,
    interval,
    names,
    number,
    percent,
    times,
)
from xla_sweeps.report.wandb_report.findings import mobilenets
from xla_sweeps.report.wandb_report.markdown import escape, table
from xla_sweeps.report.wandb_report.settings import Setting, by_setting, commonest
from xla_sweeps.schema.columns import IMPORTED
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.system.text import counted

PODIUM_ROWS = 10
DEVICES = 4
SETTING_ROWS = 100
PUBLISHED_ROWS = 100

PODIUMS: dict[PodiumKey, tuple[str, str]] = {
    "throughput": ("Throughput with XLA", "images/s"),
    "absolute_speedup": ("Throughput gained", "images/s more than graph mode"),
    "speedup_percent": ("Speedup", "% over graph mode"),
}


def where(pairs: Sequence[ComparisonRow]) -> str:
    """Families by geometric mean, at the commonest setting of each device."""
    parts = [
        f"### {escape(setting)}\n\n{_families(overview(rows))}"
        for setting, rows in list(commonest(pairs).items())[:DEVICES]
    ]
    if not parts:
        return "No family was measured."
    return "\n\n".join(
        [
            "Speedup of XLA over graph mode by model family: the geometric mean over its models, "
            "at the size and batch that each device measured most.",
            *parts,
            *_cut(pairs),
        ]
    )


def _families(found: Overview) -> str:
    families = sorted(found.families, key=lambda item: -(item.geomean or 0.0))
    cells = [
        [
            escape(item.family),
            str(item.n),
            str(item.models),
            str(item.failed),
            times(item.geomean),
            percent(item.share_slower),
        ]
        for item in families
    ]
    headings = ["family", "pairs", "models", "failed", "geometric mean", "slower with XLA"]
    return table(headings, cells, right=range(1, 6))


def fastest(pairs: Sequence[ComparisonRow]) -> str:
    """The podiums of each device, at its commonest setting."""
    parts = ["Rows whose intervals overlap share a rank; a row without an interval has none."]
    for setting, rows in list(commonest(pairs).items())[:DEVICES]:
        parts.append(f"### {escape(setting)}")
        parts += [_podium(rows, key) for key in PODIUMS]
    return "\n\n".join([*parts, *_cut(pairs)])


def _podium(rows: Sequence[ComparisonRow], key: PodiumKey) -> str:
    title, unit = PODIUMS[key]
    ranked = podium(rows, key, limit=PODIUM_ROWS)
    cells = []
    for (rank, row), name in zip(ranked, names([row for _, row in ranked]), strict=True):
        value, low, high = podium_figure(row, key)
        cells.append(
            [
                str(rank or "–"),
                name,
                number(value),
                interval(low, high, number),
                VERDICTS[row.speedup.verdict],
            ]
        )
    headings = ["rank", "model", unit, "95 %", "verdict"]
    return f"**{title}**\n\n{table(headings, cells, right=(0, 2, 3))}"


def _cut(pairs: Sequence[ComparisonRow]) -> list[str]:
    devices = len({row.trial.device for row in pairs})
    if devices <= DEVICES:
        return []
    return [f"{DEVICES} of {devices} devices are shown here; the page has all."]


def flops(pairs: Sequence[ComparisonRow]) -> str:
    """Whether operations alone explain the speed, with the MobileNets as the test."""
    known = sum(row.trial.macs is not None for row in pairs)
    found = [
        f"**MobileNets and others, {escape(setting)}.** {text}"
        for setting, rows in list(commonest(pairs).items())[:DEVICES]
        if (text := mobilenets(rows))
    ]
    return "\n\n".join(
        [
            "Throughput over multiply-accumulates of one image, both logarithmic. If only "
            "arithmetic mattered, the models would lie on one falling line. "
            f"{known:,} of {len(pairs):,} pairs have a count.",
            *found,
        ]
    )


def compare(pairs: Sequence[ComparisonRow]) -> str:
    """Every setting, and the models that were measured in all of them."""
    settings = by_setting(pairs)
    if len(settings) < 2:
        return "These results have one device, one resolution, one batch size and one precision."
    known = {
        setting: {row.trial.model for row in rows if row.speedup.value is not None}
        for setting, rows in settings.items()
    }
    shared = set.intersection(*known.values())
    cells = [_setting_cells(setting, rows, shared) for setting, rows in settings.items()]
    headings = ["device", "px", "batch", "other", "pairs", "models", "failed"]
    headings += ["geometric mean", "slower", "same models"]
    text = (
        "The last column is the geometric mean over the models that were measured in every row "
        f"({counted(len(shared), 'model')}): compare rows by that one."
        if shared
        else "No model was measured in every row: the rows are of different models, so their means "
        "do not compare."
    )
    listed = table(headings, cells[:SETTING_ROWS], right=(1, 2, 4, 5, 6, 7, 8, 9))
    if len(cells) > SETTING_ROWS:
        text += f" {SETTING_ROWS} of {len(cells):,} rows are shown."
    return f"{text}\n\n{listed}"


def _setting_cells(setting: Setting, rows: Sequence[ComparisonRow], shared: set[str]) -> list[str]:
    found = overview(rows)
    alike = [row for row in rows if row.trial.model in shared and row.speedup.value is not None]
    mean, _ = geometric_mean(
        [row.speedup.value or 0.0 for row in alike], [row.trial.model for row in alike]
    )
    return [
        escape(setting.device),
        str(setting.resolution_px),
        str(setting.batch_size),
        escape(setting.other),
        str(found.pairs),
        str(found.models),
        str(found.failed),
        times(found.geomean),
        percent(found.slower / found.pairs if found.pairs else None),
        times(mean),
    ]


def published(rows: Sequence[ComparisonRow]) -> str:
    """Imported figures, each beside what was measured here of the same; "" if there are none."""
    imported = [row for row in rows if row.provenance.origin == IMPORTED]
    if not imported:
        return ""
    own: dict[object, list[str]] = {}
    for row in rows:
        rate = row.candidate.throughput_samples_per_s
        if row.provenance.origin != IMPORTED and rate is not None:
            own.setdefault(_asked(row), []).append(f"{number(rate)} on {row.trial.device}")
    cells = [
        [
            escape(row.trial.model),
            str(row.trial.resolution_px),
            str(row.trial.batch_size),
            escape(row.trial.device),
            escape(row.candidate.mode),
            number(row.candidate.throughput_samples_per_s),
            escape(row.baseline.mode) or NONE,
            times(row.speedup.value),
            escape(", ".join(own.get(_asked(row), ()))) or NONE,
        ]
        for row in imported[:PUBLISHED_ROWS]
    ]
    headings = ["model", "px", "batch", "device", "mode", "images/s", "over", "speedup"]
    cut = (
        f"\n\n{PUBLISHED_ROWS} of {len(imported):,} are listed; the page lists all."
        if len(imported) > PUBLISHED_ROWS
        else ""
    )
    listed = table([*headings, "images/s measured here"], cells, right=(1, 2, 5, 7))
    return (
        "Single measurements of others, without an interval; no mean and no count of this report "
        f"has them.\n\n{listed}{cut}"
    )


def _asked(row: ComparisonRow) -> object:
    trial = row.trial
    what = (trial.model, trial.resolution_px, trial.batch_size, trial.precision, trial.scenario)
    return *what, row.candidate.mode
