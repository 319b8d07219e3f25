"""The command `advise`: which setting to use, what it gains over the one in use, what to write."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xla_sweeps.analysis.race import Limits
from xla_sweeps.cli.arguments import add_model, command_parser, require_model
from xla_sweeps.cli.sweep import slots_of
from xla_sweeps.cli.sweep_options import Options
from xla_sweeps.config.values import SECONDS, quantity_in
from xla_sweeps.errors import LEFT_CODE
from xla_sweeps.report import export
from xla_sweeps.report.race import document_of, text_of
from xla_sweeps.report.terminal.console import warn
from xla_sweeps.report.terminal.progress import TrialProgress
from xla_sweeps.schema.overrides import key_of
from xla_sweeps.sweeps.compose import Composer
from xla_sweeps.sweeps.race import Race, Stopped, axes_of

_MILLISECONDS = quantity_in({"ms": 1, "s": 1000}, "a time such as 50ms")

_BYTES = quantity_in({"GiB": 2**30, "MiB": 2**20}, "a size such as 4GiB")

_EXAMPLES = """\
  xla-sweeps advise model=mobilenet_v2 --budget 10min
  xla-sweeps advise model=resnet50 batch_size=1 --latency-limit 50ms
  xla-sweeps advise model=tiny_dense precision=float32 --vary threads.intra=1,2
"""


def advise_command(arguments: Sequence[str]) -> int:
    """Race the settings, measure the finalists again, and say what to write."""
    options = _parser().parse_intermixed_args(list(arguments))
    export.require_writable(options.output)
    require_model("advise", options.overrides)
    race = _race(options)
    race.check()
    try:
        race.run()
        advice = race.finish()
    except Stopped as stop:
        warn("stopped; its trials are kept: rerun the command to resume")
        return 128 + int(stop.args[0])
    run = race.command(advice.best) if advice.best else ()
    trial = race.settings(race.start).trial
    commands = {
        "run": shlex.join(["python", "-m", "xla_sweeps", *run]) if run else "",
        "again": shlex.join(["xla-sweeps", "advise", *arguments]),
    }
    if options.format == "json":
        export.write_json(document_of(advice, trial, **commands), options.output)
    else:
        export.write_text(text_of(advice, trial, **commands), options.output)
    return 0 if advice.is_sure else LEFT_CODE


def _race(options: argparse.Namespace) -> Race:
    """The race that was asked for; its trials count although other programs disturbed them."""
    asked = Options(
        file=Path("advise"),
        overrides=options.overrides,
        config_dir=options.config_dir,
        accept_contaminated=True,
    )
    composer = Composer(
        asked.overrides,
        slots=[replace(slots_of(asked)[0], cores=())],  # alone: a share of no cores
        config_dir=options.config_dir,
        accepted=asked.accepted,
    )
    axes = axes_of(composer, options.overrides, options.vary)
    return Race(
        given=[word for word in options.overrides if key_of(word) not in axes],
        axes=axes,
        chosen={key_of(word) for word in options.vary},
        composer=composer,
        config_dir=options.config_dir,
        mode=options.now or "",
        limits=Limits(latency_ms=options.latency_limit, memory_bytes=options.memory),
        budget_s=options.budget,
        screen=lambda settings: TrialProgress(ui=settings.ui, brief=True),
        warn=warn,
    )


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "advise",
        "Races settings from what you use now: backend, precision, batch size, modes, and what "
        "--vary adds. A setting is dropped only where its interval lies below the leader's. The "
        "leaders are measured again against what you use now, in pairs of fresh processes: the "
        "gain is theirs. The trials are kept: rerun it to resume. Exit code 3 where there is no "
        "clear answer.",
        examples=_EXAMPLES,
    )
    text = "the mode that you use now (default: the graph mode of the scenario)"
    parser.add_argument("--now", metavar="MODE", help=text)
    text = "vary another option: threads.intra=1,2 (repeatable)"
    parser.add_argument("--vary", action="append", default=[], metavar="KEY=V,V", help=text)
    text = "time for everything, such as 120 (seconds), 10min or 1h (default: 10min)"
    parser.add_argument("--budget", type=SECONDS, default=600.0, metavar="TIME", help=text)
    text = "the most that a call may take: the 90th percentile, with its interval (50ms)"
    parser.add_argument("--latency-limit", type=_MILLISECONDS, metavar="TIME", help=text)
    text = "the most device memory that a mode may take (4GiB)"
    parser.add_argument("--memory", type=_BYTES, metavar="SIZE", help=text)
    every = "options of every trial; one that is given is not varied (batch_size=1)"
    add_model(parser, overrides=every)
    return parser
