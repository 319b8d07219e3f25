"""Write what XLA costs, what failed, and how far to trust it in Markdown. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xla_sweeps.analysis.overview import overview
from xla_sweeps.analysis.trust import Trust
from xla_sweeps.report.advice import FLAG_TEXTS
from xla_sweeps.report.wandb_report import findings
from xla_sweeps.report.wandb_report.cells import NONE, calls, number, percent_of, times, who
from xla_sweeps.report.wandb_report.markdown import escape, table
from xla_sweeps.report.wandb_report.settings import commonest
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import call_of
from xla_sweeps.schema.row import ComparisonRow

FAILURE_ROWS = 50
COSTLY_ROWS = 10


def cost(pairs: Sequence[ComparisonRow]) -> str:
    """What XLA costs at each device's commonest setting, and the most expensive pairs."""
    known = [row for row in pairs if row.speedup.compile_s_extra is not None]
    if not known:
        return findings.NO_COST
    told = [
        f"**{escape(setting)}.** {findings.cost(overview(rows))}"
        for setting, rows in commonest(pairs).items()
    ]
    told.append("The panel omits pairs that never pay back or are ambiguous.")
    expensive = sorted(known, key=lambda row: -(row.speedup.compile_s_extra or 0.0))[:COSTLY_ROWS]
    cells = [
        [
            *who(row),
            number(row.speedup.compile_s_extra),
            calls(row),
            times(row.speedup.peak_memory_ratio),
        ]
        for row in expensive
    ]
    headings = ["model", "px", "batch", "device"]
    each = call_of(known[0].trial.scenario)
    headings += ["extra preparation, s", f"{each}s to pay back", "peak memory"]
    listed = table(headings, cells, right=(1, 2, 4, 5, 6))
    return "\n\n".join([*told, f"**The {len(expensive)} most expensive**", listed])


def broke(pairs: Sequence[ComparisonRow]) -> str:
    """What failed, and what to do about it."""
    failed = [row for row in pairs if row.speedup.verdict is Verdict.FAILED]
    if not failed:
        return "Nothing failed."
    counts = Counter((str(row.status), row.failure.mode) for row in failed)
    summary = table(
        ["status", "mode", "pairs"],
        [
            [escape(status), escape(mode) or NONE, str(count)]
            for (status, mode), count in counts.most_common()
        ],
        right=(2,),
    )
    cells = [
        [
            *who(row),
            escape(row.status),
            escape(row.failure.mode) or NONE,
            escape(row.failure.message, longest=160),
            escape(row.failure.hint, longest=160),
        ]
        for row in failed[:FAILURE_ROWS]
    ]
    cut = (
        f"\n\n{FAILURE_ROWS} of {len(failed):,} are listed; the page lists all."
        if len(failed) > FAILURE_ROWS
        else ""
    )
    headings = ["model", "px", "batch", "device", "status", "mode", "message", "what to do"]
    listed = table(headings, cells, right=(1, 2))
    return f"{len(failed):,} of {len(pairs):,} pairs failed.\n\n{summary}\n\n{listed}{cut}"


def trust(pairs: Sequence[ComparisonRow], found: Trust | None) -> str:
    """What the figures rest on, and their flags."""
    if not pairs:
        return "Nothing was measured."
    preliminary = sum(row.speedup.preliminary for row in pairs)
    contaminated = sum(row.status is Status.CONTAMINATED for row in pairs)
    alone = sum(row.speedup.value is not None and row.speedup.freedom is None for row in pairs)
    replicates = Counter(row.speedup.replicates for row in pairs)
    floors = {row.trial.device: row.speedup.floor for row in pairs}
    spread = [row.speedup.cv_percent for row in pairs if row.speedup.cv_percent is not None]
    between = [
        row.speedup.between_percent for row in pairs if row.speedup.between_percent is not None
    ]
    lines = [
        "Replicates of a pair: "
        + ", ".join(
            f"{number} ({count:,} {'pair' if count == 1 else 'pairs'})"
            for number, count in sorted(replicates.items())
        )
        + f". {preliminary:,} of {len(pairs):,} pairs have fewer than three and are preliminary; "
        f"the intervals of {alone:,} hold within one process, so these have no rank.",
        f"{contaminated:,} of {len(pairs):,} pairs are contaminated by other load on the machine.",
        "No A/A pair was measured." if found is None else _capitalized(str(found)),
        "Smaller differences do not count: "
        + ", ".join(f"{floor:.1%} on {escape(device)}" for device, floor in sorted(floors.items()))
        + ".",
        f"Median spread of blocks within a replicate: {percent_of(spread)}; "
        f"of replicates: {percent_of(between)}.",
    ]
    flags = Counter(flag.partition(":")[0] for row in pairs for flag in row.flags)
    if not flags:
        return "\n\n".join([*lines, "No pair is flagged."])
    cells = [
        [escape(flag), str(count), escape(FLAG_TEXTS.get(flag, ""), longest=300)]
        for flag, count in flags.most_common()
    ]
    return "\n\n".join([*lines, table(["flag", "pairs", "meaning"], cells, right=(1,))])


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]
