"""Comparison rows of a made-up study, as the page gets them: realistic in number, shape and noise.

Nothing was measured.

The whole catalog on three devices, at several resolutions, batch sizes and precisions; failures of
many kinds; figures without intervals, as published ones are; and texts that would break a page
which trusted them. The same arguments always give the same rows.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from xla_sweeps.analysis.mode_summary import WITHHELD
from xla_sweeps.config.catalog import CatalogEntry, load_catalog
from xla_sweeps.report.dashboard import build

TEXTS, NUMBERS = build.CATEGORIES, build.NUMBERS
Row = dict[str, Any]

EXPLOIT = "</script><script>globalThis.exploited = 1</script>"
IMAGE = '<img src=x onerror="globalThis.exploited = 2">'
NASTY_MODEL = "net{a|b}{c}<b>&amp;\"'"
NASTY_DEVICE = 'NVIDIA <i>A100</i> & "friends" {bold|x}'
FAILURES = (
    (
        "unsupported_op",
        "Detected unsupported operations when trying to compile graph: CombinedNonMaxSuppression; "
        'File "<module>", line 1',
        "use scenario=call, which leaves the detector's post-processing out",
    ),
    (
        "oom_gpu",
        "Out of memory while trying to allocate 3,221,225,472 bytes",
        "halve the batch size",
    ),
    ("timeout", "compiling took longer than 1800 s", "raise timeouts.compile_s"),
    ("crashed", "the process ended with SIGSEGV", '=HYPERLINK("http://127.0.0.1")'),
    (
        "wrong_result",
        "differs from the float64 reference by 3.1e-01 (rmse_rel), more than 1e-02 allows",
        "",
    ),
    ("compile_error", f"INTERNAL: during context {EXPLOIT}", IMAGE),
    ("run_error", f"{IMAGE} {{a|b}} \t =1+1", ""),
)
"""Status, message and hint."""

WRONG: Row = {
    **dict.fromkeys(("speedup", "speedup_low", "speedup_high", "p_value")),
    "verdict": "failed",
    "status": "wrong_result",
    "failed_mode": "xla",
}
"""Columns of a row whose candidate computes something else: its throughput stays."""

FLOOR = 0.01

COMMAND = (
    "python -m xla_sweeps 'model={model}' source={source} resolution={resolution_px} "
    "batch_size={batch_size} precision={precision} effort={effort} jit=true"
)

START = datetime(2026, 11, 1, tzinfo=UTC)


class Device(NamedTuple):
    """A made-up device: multiply-accumulates per second, and the minimum seconds of a call."""

    name: str
    kind: str
    macs_per_s: float
    call_s: float
    noise: float


DEVICES = (
    Device("NVIDIA H100 80GB HBM3", "gpu", macs_per_s=9e12, call_s=1.2e-3, noise=0.002),
    Device(NASTY_DEVICE, "gpu", macs_per_s=4e12, call_s=1.6e-3, noise=0.004),
    Device("AMD EPYC 9654", "cpu", macs_per_s=2e11, call_s=0.8e-3, noise=0.015),
)


class _Setting(NamedTuple):
    """The setting of one trial; `columns` are those that it asks for."""

    entry: CatalogEntry
    device: Device
    columns: Row


def make_rows(count: int, *, seed: int = 0) -> Iterator[Row]:
    """About so many rows: whole trials, at most two rows more than asked for."""
    source = random.Random(seed)
    made = 0
    for number, setting in enumerate(_settings(source)):
        if made >= count:
            return
        rows = _trial(setting, random.Random(f"{seed}-{number}"), aa=number % 23 == 5)
        if number % 41 == 7:
            rows = _imported(setting, random.Random(f"{seed}-{number}"))
        made += len(rows)
        yield from rows
    raise ValueError(f"there are no more than {made} rows to be had")


def base_row(**changes: Any) -> Row:
    """A row with only a measured headline pair, for tests that need one special row."""
    row: Row = dict.fromkeys(TEXTS, "") | dict.fromkeys(NUMBERS)
    row |= {
        "trial_id": "0" * 16,
        "family": "ResNetV1",
        "variant": "ResNet50",
        "model": "resnet50",
        "source": "applications",
        "task": "classification",
        "precision": "float32",
        "scenario": "call",
        "effort": "standard",
        "modes": "eager,graph,xla",
        "device": "AMD EPYC 9654",
        "candidate": "xla",
        "baseline": "graph",
        "verdict": "faster",
        "status": "ok",
        "origin": "measured",
        "results": "results",
        "software": "TensorFlow 2.21.0, Keras 3.15.1",
        "host": "node1",
        "measured_at": "2026-11-01T12:00:00+00:00",
        "command": "python -m xla_sweeps model=resnet50 source=applications jit=true",
        "headline": 1,
        "host_bound": 0,
        "macs_at_least": 0,
        "eager_is_graph": 0,
        "resolution_px": 224,
        "batch_size": 1,
        "floor": FLOOR,
        "replicates": 5,
        "rounds": 300,
    }
    changed = {**row, **changes}
    return {**changed, "samples": changed["batch_size"] * (changed["batches"] or 1)}


def pair_row(number: int, rate: float, **changes: Any) -> Row:
    """A trial's headline pair of 100 and `rate` images/s."""
    return base_row(trial_id=f"{number:016}", **changes) | compared(100.0, rate, 0.02)


def compared(baseline: float, candidate: float, half_width: float) -> Row:
    """The columns of a comparison of two throughputs, with the verdict that its interval gives."""
    speedup = candidate / baseline
    low, high = speedup * math.exp(-half_width), speedup * math.exp(half_width)
    bound = math.log1p(FLOOR)
    distance = (abs(math.log(speedup)) - bound) / (half_width / 1.96)
    if math.log(low) > bound:
        verdict = "faster"
    elif math.log(high) < -bound:
        verdict = "slower"
    else:
        verdict = "equivalent" if max(-math.log(low), math.log(high)) <= bound else "ambiguous"
    share = half_width / math.sqrt(2)
    return {
        "throughput_samples_per_s": candidate,
        "throughput_low": candidate * math.exp(-share),
        "throughput_high": candidate * math.exp(share),
        "baseline_throughput_samples_per_s": baseline,
        "baseline_throughput_low": baseline * math.exp(-share),
        "baseline_throughput_high": baseline * math.exp(share),
        "speedup": speedup,
        "speedup_low": low,
        "speedup_high": high,
        "verdict": verdict,
        "floor": FLOOR,
        "p_value": min(1.0, math.erfc(distance / math.sqrt(2))) if distance > 0 else 1.0,
    }


def _settings(source: random.Random) -> Iterator[_Setting]:
    """Every combination once, in a random order."""
    models: list[tuple[CatalogEntry, str, str]] = [
        (entry, entry.name, name) for entry in load_catalog().values() for name in entry.sources
    ]
    models.append((load_catalog()["resnet50"], NASTY_MODEL, "local"))
    sizes = list(itertools.product((1.0, 1.5, 0.5), (1, 8, 32, 128)))
    kinds = [
        ("float32", "standard", 5),
        ("mixed_float16", "standard", 5),
        ("float32", "quick", 1),
        ("bfloat16", "publish", 10),
    ]
    names = ("model", "source", "resolution_px", "batch_size", "precision", "effort", "replicates")
    combinations = list(itertools.product(models, DEVICES, sizes, kinds))
    source.shuffle(combinations)
    for (entry, *model), device, (factor, batch), kind in combinations:
        asked = (*model, round(entry.resolution * factor / 32) * 32, batch, *kind)
        yield _Setting(entry, device, dict(zip(names, asked, strict=True)))


def _trial(setting: _Setting, source: random.Random, *, aa: bool) -> list[Row]:
    """Graph to XLA, eager to graph, eager to XLA; and graph to its twin."""
    rates, common = _throughputs(setting, source), _common(setting, source)
    shares, several = {"xla": 0.04, "graph": 0.004}, setting.columns["replicates"] > 1
    failed = {
        mode: source.choice(FAILURES) for mode, share in shares.items() if source.random() < share
    }
    pairs = [("xla", "graph"), ("graph", "eager"), ("xla", "eager")]
    if aa:
        pairs.append(("graph_2", "graph"))
        rates["graph_2"] = rates["graph"] * math.exp(source.gauss(0, setting.device.noise))
    compile_s = math.exp(source.gauss(2.5, 0.7))
    memory = math.exp(source.gauss(-0.1, 0.15))
    rows = []
    for candidate, baseline in pairs:
        row = common | {"candidate": candidate, "baseline": baseline}
        row["headline"] = float((candidate, baseline) == pairs[0])
        rows.append(row)
        culprit = next((mode for mode in (candidate, baseline) if mode in failed), None)
        if culprit is not None:
            names = ("status", "failure_message", "failure_hint")
            row |= {"verdict": "failed", "failed_mode": culprit}
            row |= dict(zip(names, failed[culprit], strict=True))
            for mode, side in ((baseline, "baseline_"), (candidate, "")):
                if mode != culprit or row["status"] in WITHHELD:
                    row[f"{side}throughput_samples_per_s"] = rates[mode]
            continue
        half_width = setting.device.noise * 1.96 * math.exp(source.gauss(0, 0.4))
        half_width *= math.sqrt(5 / setting.columns["replicates"])
        row |= compared(rates[baseline], rates[candidate], half_width)
        if candidate == "graph_2" and several:
            across = math.exp(source.gauss(0, 2 * half_width))
            width = math.exp(3 * half_width)
            row |= {"aa_across": across, "floor_across": FLOOR}
            row |= {"aa_across_low": across / width, "aa_across_high": across * width}
        extra = compile_s if candidate == "xla" else 0.4
        extra -= 0.4 if baseline == "graph" else 0.0
        row["compile_s_extra"] = extra
        if row["verdict"] == "faster":
            call_s = setting.columns["batch_size"] / rates[baseline]
            for name, bound in (("calls", ""), ("low", "_high"), ("high", "_low")):
                gain_s = call_s * (1 - 1 / row[f"speedup{bound}"])
                row[f"break_even_{name}"] = max(extra, 0.0) / gain_s
        row["peak_memory_ratio"] = memory if "xla" in (candidate, baseline) else 1.0
        row["within_percent"] = 100 * half_width / 1.96
        if several:
            row["between_percent"] = 100 * half_width * math.exp(source.gauss(0, 0.3))
    return rows


def _imported(setting: _Setting, source: random.Random) -> list[Row]:
    """A published figure: without an interval, sometimes without a baseline."""
    rates = _throughputs(setting, source)
    row = _common(setting, source) | {
        "origin": "imported",
        "flags": "imported",
        "verdict": "ambiguous",
        "candidate": "xla",
        "baseline": "eager",
        "note": "published; a single measurement",
        "throughput_samples_per_s": rates["xla"],
        "results": "published",
        "replicates": 1,
        "headline": 0.0,
        "log": "",
        "command": "",
        "device": "Tesla V100-SXM2-16GB",
        "cv_percent": None,
    }
    if source.random() < 0.7:
        row |= {
            "baseline_throughput_samples_per_s": rates["eager"],
            "speedup": rates["xla"] / rates["eager"],
        }
    return [row]


def _throughputs(setting: _Setting, source: random.Random) -> dict[str, float]:
    """Images per second of each mode, from a rough idea of how long they take."""
    macs = _macs(setting) or 5e9
    speed = setting.device.macs_per_s * (
        1.0 if setting.columns["precision"] == "float32" or setting.device.kind == "cpu" else 1.9
    )
    batch = setting.columns["batch_size"]
    work_s = macs * batch**0.95 / speed
    of_family = random.Random(f"{setting.entry.family}-{setting.device.name}").gauss(0.18, 0.22)
    graph_s = work_s + setting.device.call_s
    xla_s = graph_s / math.exp(source.gauss(of_family, 0.12))
    if source.random() < 0.1:
        xla_s = graph_s / math.exp(source.gauss(0, 0.003))
    eager_s = graph_s + setting.device.call_s * source.uniform(2, 9)
    seconds = {"eager": eager_s, "graph": graph_s, "xla": xla_s}
    return {mode: batch / call_s for mode, call_s in seconds.items()}


def _macs(setting: _Setting) -> float | None:
    entry, source = setting.entry, setting.columns["source"]
    published = entry.published_in(source) if source in entry.sources else entry.published
    if published is None or published.gmacs is None:
        return None
    factor: float = setting.columns["resolution_px"] / entry.resolution
    return published.gmacs * 1e9 * factor**2


def _common(setting: _Setting, source: random.Random) -> Row:
    """Columns that a trial's rows share."""
    entry, trial_id = setting.entry, f"{source.getrandbits(64):016x}"
    published = entry.published
    gpu, replicates = setting.device.kind == "gpu", setting.columns["replicates"]
    shares = {"not_converged": 0.05, "contains_xla:graph": 0.03, "cut_short": 0.01}
    flags = [flag for flag, share in shares.items() if source.random() < share]
    clocks = [source.choice((1665, 1755, 1830)), source.choice((1875, 1980))] if gpu else [None] * 2
    measured_at = START + timedelta(seconds=source.randrange(5 * 86400))
    return base_row(
        trial_id=trial_id,
        family=entry.family,
        variant=entry.variant,
        task=entry.task,
        **setting.columns,
        device=setting.device.name,
        rounds=60 * replicates,
        host_bound=float(source.random() < 0.05 and gpu),
        flags=" ".join(flags),
        eager_is_graph=float(setting.columns["source"] == "hub"),
        params=published and published.params_million * 1e6,
        macs=_macs(setting),
        cv_percent=100 * setting.device.noise * math.exp(source.gauss(1, 0.3)),
        foreign_cores=max(0.0, source.gauss(0.02, 0.05)),
        sm_clock_mhz_low=clocks[0],
        sm_clock_mhz_high=clocks[1],
        temperature_high=float(source.randrange(48, 79)) if gpu else None,
        software="TensorFlow 2.21.0, Keras 3.15.1" + (", CUDA 12.5.1" if gpu else ""),
        driver="570.86" if gpu else "",
        host=f"node{source.randrange(1, 5)}",
        log=f"records/{trial_id}/{replicates - 1}.log",
        measured_at=measured_at.isoformat(),
        command=COMMAND.format(**setting.columns),
    )
