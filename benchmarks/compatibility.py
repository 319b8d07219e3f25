"""Test whether each model of the catalog builds, traces, compiles and agrees with eager execution.

    python -m benchmarks.compatibility docs/compatibility.csv [--source NAME] [--largest-px 384]

One measuring process for each entry and source, with batch 1 and few timed calls. Rows that the
file already has are not run again, so a stopped run can be resumed. The page beside it
(docs/compatibility.md) is written from the file at the end.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import track

from xla_sweeps.config import catalog, compose
from xla_sweeps.config.settings import settings_of
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system import devices, environment
from xla_sweeps.system.leases import Leases
from xla_sweeps.trial import conductor
from xla_sweeps.trial.monitor import Sampler
from xla_sweeps.trial.replicate import Setting
from xla_sweeps.trial.workers import Stop, commands_of

MODES = ("graph", "xla")
COMPILED = ("ok", "wrong_result", "unverifiable", "nondeterministic")


class Silent:
    """Follow a replicate silently."""

    def __getattr__(self, name: str) -> Any:
        return lambda *told: None


SILENT: Any = Silent()


@dataclass(frozen=True, kw_only=True)
class Row:
    """One entry from one source.

    Attributes:
        xla: `ok`, or the status that XLA ended with.
        rmse_rel: of XLA's outputs from eager's, relative to the largest.
        compile_s: trace and first call less a second call, seconds.
        message: the reason of a failure.
    """

    model: str
    source: str
    px: int
    params: int | None = None
    macs: int | None = None
    graph: str = ""
    xla: str = ""
    rmse_rel: float | None = None
    compile_s: float | None = None
    message: str = ""


def check(entry: catalog.CatalogEntry, source: str, largest_px: int) -> Row:
    """Build, trace, compile, verify and briefly time one entry in a process of its own."""
    px = _resolution(entry, source, largest_px)
    chosen = [f"model={entry.name}", f"source={source}", f"resolution={px}"]
    composed = compose.compose_config(
        [*chosen, "batch_size=1", f"modes=[{','.join(MODES)}]", "device=cpu"]
    )
    settings = settings_of(composed)
    effort = replace(settings.trial.effort, rounds_min=1, rounds_max=1, warmup_cap_calls=1)
    trial = replace(settings.trial, effort=effort)
    job = ReplicateJob(trial=trial, replicate=0, modes=MODES, order_seed=0)
    limit = settings.trial.memory_limit_bytes
    with tempfile.TemporaryDirectory() as folder, Stop() as stop:
        attempt = conductor.measure(
            job,
            Setting(
                commands=commands_of(trial, settings.device, Path(folder, "log")),
                watch=partial(Sampler, device=settings.device, memory_limit_bytes=limit),
                stop=stop,
                leases=Leases((), holder=""),
                screen=SILENT,
                tracker=SILENT,
            ),
        )
    outcomes = {label: attempt.modes.get(label) for label in MODES}
    failures = [attempt.failure, *(outcome.failure for outcome in outcomes.values() if outcome)]
    xla, facts = outcomes["xla"], attempt.model
    return Row(
        model=entry.name,
        source=source,
        px=px,
        params=facts.params if facts else None,
        macs=facts.macs if facts else None,
        **{
            label: str(outcome.status) if outcome else "not reached"
            for label, outcome in outcomes.items()
        },
        rmse_rel=xla.agreement.rmse_rel if xla and xla.agreement else None,
        compile_s=round(xla.compile_s + (xla.trace_s or 0), 2)
        if xla and xla.compile_s is not None
        else None,
        message=next((failure.message for failure in failures if failure), ""),
    )


def _resolution(entry: catalog.CatalogEntry, source: str, largest_px: int) -> int:
    if entry.resolution <= largest_px or entry.sources[source].fixed_resolution:
        return entry.resolution
    return max(entry.min_resolution, largest_px // entry.divisor * entry.divisor)


def read(path: Path) -> list[dict[str, str]]:
    """The rows of the file, if it exists."""
    return list(csv.DictReader(path.open(encoding="utf-8"))) if path.exists() else []


HEAD = """# Which models compile under XLA, and do they compute the same?

{answer} Every entry, with parameters, GMACs, error and compile time:
[compatibility.csv](compatibility.csv).

Written by `python -m benchmarks.compatibility docs/compatibility.csv` on {cores} cores of an
{cpu}, without a GPU: this is XLA:CPU. {versions}.

Batch 1, random weights, float32; native resolutions above 384 px are reduced to 384 px. An entry
agrees if XLA's outputs are close enough to eager's (`rmse_rel`: root mean square relative to the
largest), or as close to float64 as eager's are. `compile_s`: trace and first call less a second
call, on a busy machine: an order of magnitude.

| source | entries | compile under XLA | agree with eager |
|---|---:|---:|---:|
"""


def page(rows: Sequence[Mapping[str, str]]) -> str:
    """The answer as Markdown: a count by source, and the entries that do not agree."""
    packages = environment.versions()
    names = ("tensorflow", "keras", "tf_keras", "keras-cv", "keras-hub", "tensorflow-hub")
    compiled = [row for row in rows if row["xla"] in COMPILED]
    others = [row for row in rows if row["xla"] != "ok"]
    text = HEAD.format(
        answer=(
            f"{len(compiled)} of {len(rows)} entries compile; "
            f"all but {len(others)} agree with eager."
        ),
        cores=devices.usable_cores(),
        cpu=devices.cpu_name(),
        versions=", ".join(f"{name} {packages[name]}" for name in names if name in packages),
    )
    for source in catalog.SOURCES:
        if own := [row for row in rows if row["source"] == source]:
            counts = [sum(row in some for row in own) for some in (compiled, others)]
            text += f"| {source} | {len(own)} | {counts[0]} | {len(own) - counts[1]} |\n"
    text += "\n| entry | source | XLA | why |\n|---|---|---|---|\n" if others else ""
    for row in others:
        text += f"| {row['model']} | {row['source']} | {row['xla']} | {row['message']} |\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("file", type=Path)
    parser.add_argument("--source", choices=list(catalog.SOURCES), help="only this source")
    parser.add_argument(
        "--largest-px", type=int, default=384, help="larger native resolutions are reduced to it"
    )
    options = parser.parse_args()
    done = {(row["model"], row["source"]) for row in read(options.file)}
    todo = [
        (entry, source)
        for entry in catalog.load_catalog().values()
        for source in entry.sources
        if options.source in (None, source) and (entry.name, source) not in done
    ]
    names = [field.name for field in fields(Row)]
    with options.file.open("a", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, names)
        if not done:
            writer.writeheader()
        for entry, source in track(todo, description="checking"):
            writer.writerow(asdict(check(entry, source, options.largest_px)))
            stream.flush()
    options.file.with_suffix(".md").write_text(page(read(options.file)), encoding="utf-8")


if __name__ == "__main__":
    main()
