"""The command `predict-cost`: what `model.predict` costs a call and a sample."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import msgspec

from xla_sweeps.analysis.predict_cost import copies_of, cost_of, points_of
from xla_sweeps.cli import command_parser
from xla_sweeps.config.compose import compose_config, plain
from xla_sweeps.config.identity import identify
from xla_sweeps.config.settings import MAX_BATCH, Settings, settings_of
from xla_sweeps.config.values import folder_of, path_of
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.report import export
from xla_sweeps.report.advice import throughput_unit
from xla_sweeps.report.terminal.predict_cost import cost_text, json_of
from xla_sweeps.results.store import Store
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.trial import Precision
from xla_sweeps.system import environment

SIZES = (1, 8, 32, 128)

BATCHES = (4, 16)

MAX_SAMPLES = 10**9

_CHOSEN = {
    "scenario": "it is scenario=predict",
    "batch_size": "--batch-sizes chooses the sizes",
    "batches": "--batches chooses the numbers of batches",
}
"""Keys that the command sets itself."""

_EXAMPLES = """examples:
  xla-sweeps predict-cost model=mobilenet_v2
  xla-sweeps predict-cost model=resnet50 keras=2 --batch-sizes 1,4,16
  xla-sweeps predict-cost model=mobilenet_v2 --samples 1000
  xla-sweeps predict-cost model=tiny_dense 'modes=[call_host,predict]'
"""


def predict_cost_command(arguments: Sequence[str]) -> int:
    """Measure what is missing, and fit it; exit code 1 if a trial failed."""
    parser = command_parser(
        "predict-cost",
        "Runs a trial of scenario=predict for each batch size, and for several batches in one "
        "predict, and fits what a call and a sample cost in each way to call the model. The "
        "records are kept: run it again to measure exactly what is missing.",
    )
    parser.description = "\n".join(textwrap.wrap(parser.description or "", width=78))
    parser.epilog, parser.formatter_class = _EXAMPLES, argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="of every trial: model=mobilenet_v2 effort=standard",
    )
    for name, default, text in (
        ("batch-sizes", SIZES, "batch sizes of calls of one batch"),
        ("batches", BATCHES, "batches of one call, at the second of the batch sizes"),
    ):
        written = ",".join(map(str, default))
        parser.add_argument(
            f"--{name}", metavar="N,N", default=written, help=f"{text} (default: {written})"
        )
    parser.add_argument(
        "--samples",
        metavar="N",
        help="also say what each way costs for so many samples in all, and which is the fastest",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the trials that are missing")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument(
        "-o", "--output", type=path_of, help="file to write to (default: standard output)"
    )
    parser.add_argument(
        "--config-dir", type=folder_of, help="a further folder of configuration files"
    )
    options = parser.parse_intermixed_args(list(arguments))
    if options.output is not None:
        export.require_writable(options.output)
    sizes = _numbers(options.batch_sizes, "--batch-sizes", least=3)
    samples = None if options.samples is None else _count(options.samples)
    several = [count for count in _numbers(options.batches, "--batches", least=0) if count > 1]
    pairs = [(size, 1) for size in sizes] + [(sizes[1], count) for count in several]
    place = ["--config-dir", str(options.config_dir)] if options.config_dir else []
    words = [[*_words(options.overrides), f"batch_size={n}", f"batches={k}"] for n, k in pairs]
    asked = [
        settings_of(
            plain(compose_config(one, config_dir=options.config_dir)),
            explicit=[word.partition("=")[0] for word in one],
        )
        for one in words
    ]
    commands = [["-m", "xla_sweeps", *place, *one] for one in words]
    missing = [
        command
        for one, command in zip(asked, commands, strict=True)
        if not any(record.status is Status.OK for record in _records(one))
    ]
    if options.dry_run:
        for command in missing:
            print(shlex.join(["python", *command]))
        return 0
    failed = [command for command in missing if _run(command)]
    _show(asked, samples=samples, form=options.format, output=options.output)
    return 1 if failed else 0


def _words(overrides: Sequence[str]) -> list[str]:
    for word in overrides:
        key, equals, _ = word.partition("=")
        if not equals:
            raise ConfigError(f"predict-cost: '{word}': expected KEY=VALUE, as in model={word}")
        if key in _CHOSEN:
            raise ConfigError(f"predict-cost: {word}: leave it out; {_CHOSEN[key]}")
    if not any(word.lstrip("+").startswith("model=") for word in overrides):
        raise ConfigError(
            "predict-cost: name a model, as in `xla-sweeps predict-cost model=mobilenet_v2`"
        )
    return ["scenario=predict", *overrides]


def _numbers(text: str, option: str, *, least: int) -> list[int]:
    words = [word for word in text.split(",") if word]
    good = all(
        word.isascii() and word.isdecimal() and 1 <= int(word) <= MAX_BATCH for word in words
    )
    found = sorted({int(word) for word in words}) if good else []
    if not good or len(found) < least:
        wanted = f"at least {least} different numbers" if least else "numbers"
        raise ConfigError(f"{option} {text}: expected {wanted} from 1, as in 1,8,32,128")
    return found


def _count(text: str) -> int:
    good = text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_SAMPLES))
    if not good or not 1 <= int(text) <= MAX_SAMPLES:
        raise ConfigError(
            f"--samples {text}: expected an integer from 1 to {MAX_SAMPLES:,}, as in 1000"
        )
    return int(text)


def _records(settings: Settings) -> list[Record]:
    """The replicates of a trial on this machine."""
    identifier = identify(settings, environment.environment())
    return Store(settings.results_dir).load(identifier).records.get(identifier, [])


def _run(command: Sequence[str]) -> int:
    """Run one trial as a person would; what it prints is progress here."""
    return subprocess.run([sys.executable, *command], stdout=sys.stderr, check=False).returncode


def _show(
    asked: Sequence[Settings], *, samples: int | None, form: str, output: Path | None
) -> None:
    trials = [_records(settings) for settings in asked]
    labels = asked[0].trial.modes
    fitted = {label: cost_of(points_of(trials, label)) for label in labels}
    costs = {label: cost for label, cost in fitted.items() if cost is not None}
    if not costs:
        raise StoreError(
            "predict-cost: no mode has enough measured sizes; see what failed: xla-sweeps results"
        )
    copies = copies_of(trials)
    spec = asked[0].trial.model
    if form == "json":
        document = msgspec.to_builtins(json_of(costs, copies, labels, samples=samples))
        export.write_text(json.dumps(document, indent=1) + "\n", output)
        return
    unit = throughput_unit(spec.task, spec.resolution_px or 0).removesuffix("s/s")
    built = next(record.model for records in trials for record in records if record.model)
    facts = [" ".join(filter(None, (spec.variant, built.size)))]
    facts += [f"Keras {keras}"] if (keras := asked[0].trial.model.keras) else []
    facts += [precision] if (precision := asked[0].trial.precision) is not Precision.FLOAT32 else []
    title = " · ".join([*facts, asked[0].device.name or asked[0].device.label])
    text = cost_text(costs, copies, title=title, unit=unit, samples=samples)
    export.write_text(text, output)
