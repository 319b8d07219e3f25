"""The command `batch-sizes`: throughput, latency and memory from batch 1 to the limit."""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from xla_sweeps.analysis.batch_sizes import Point, is_done, knees_of, points_of
from xla_sweeps.cli.arguments import add_model, command_parser, require_model
from xla_sweeps.cli.sweep import Request, measure_aside, plan_of, slots_of, title_of, trials_of
from xla_sweeps.cli.sweep_options import Options
from xla_sweeps.config import catalog
from xla_sweeps.config.scenario import MAX_BATCH
from xla_sweeps.config.settings import Settings
from xla_sweeps.config.values import numbers_of
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.report import export
from xla_sweeps.report.advice import throughput_unit
from xla_sweeps.report.overall import busy_words
from xla_sweeps.report.terminal.batch_sizes import sizes_text
from xla_sweeps.report.terminal.console import warn
from xla_sweeps.sweeps.definition import Parameter, load_sweep

AUTO = "auto"

_EXAMPLES = """\
  xla-sweeps batch-sizes model=mobilenet_v2
  xla-sweeps batch-sizes model=resnet50 device=gpu --until memory
  xla-sweeps batch-sizes model=mobilenet_v2 --sizes 1,8,32 'modes=[graph,xla]'
"""


def batch_sizes_command(arguments: Sequence[str]) -> int:
    """Measure what is missing, size by size, and show it all; exit code 1 if no mode ran."""
    options = _parser().parse_intermixed_args(list(arguments))
    export.require_writable(options.output)
    sizes = _sizes(options.sizes)
    chosen = {"batch_size": "--sizes chooses the sizes"}
    require_model("batch-sizes", options.overrides, chosen)
    path = catalog.shipped_sweeps()["batch_sizes"]
    asked = Options.of_answer(path, options)
    sweep, slots, points = load_sweep(path), slots_of(asked)[:1], list[Point]()
    again = ("xla-sweeps", "batch-sizes", *arguments)
    for size in sizes:
        one = Parameter(distribution="categorical", values=(size,))
        definition = replace(sweep, parameters={"batch_size": one})
        request = Request(asked, definition, slots, again=again, compares=False)
        try:
            plan = plan_of(request, self_checks=False)
        except ConfigError as error:
            if not points:
                raise
            warn(str(error))  # as where there are fewer pictures than a batch has
            break
        code = measure_aside(request, plan)
        if options.dry_run:
            continue
        if code > 128:
            return code
        settings = request.composer.settings(plan.tasks[0].words)
        _, records, summaries = trials_of(plan, settings.results_dir)
        for name, summary in summaries.items():
            points += points_of(summary, records[name])
        is_auto, limit = options.sizes == AUTO, options.until == "memory"
        if is_auto and (not points or is_done(points, to_the_limit=limit)):
            break
    if options.dry_run:
        return 0
    if not points:
        raise StoreError("batch-sizes: no size was measured; see why: xla-sweeps results")
    export.write_text(_answer(points, settings, form=options.format), options.output)
    return 0 if any(point.throughput for point in points) else 1


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "batch-sizes",
        "Runs a trial for batch sizes 1, 2, 4, ... until two sizes in a row gain less than 5 %, or "
        "memory runs out in every mode. Says from which size on each mode is within 5 % of its "
        "most throughput. The records are kept: run it again to measure exactly what is missing.",
        examples=_EXAMPLES,
    )
    add_model(parser, overrides="of every trial: model=mobilenet_v2 effort=standard")
    text = "auto (1, 2, 4, ...), or the sizes of one batch (default: auto)"
    parser.add_argument("--sizes", metavar="N,N", default=AUTO, help=text)
    text = "with --sizes auto: where to stop (default: knee)"
    parser.add_argument("--until", choices=("knee", "memory"), default="knee", help=text)
    text = "print the trials that are missing; of auto all that there may be"
    parser.add_argument("--dry-run", action="store_true", help=text)
    return parser


def _sizes(text: str) -> Iterable[int]:
    if text == AUTO:
        return itertools.takewhile(lambda n: n <= MAX_BATCH, (2**n for n in itertools.count()))
    return numbers_of(text, "--sizes", least=1, most=MAX_BATCH)


def _answer(points: Sequence[Point], settings: Settings, *, form: str) -> str:
    """The points and the knees, as text or JSON."""
    if form == "json":
        document = {"points": points, "knees": knees_of(points)}
        return json.dumps(msgspec.to_builtins(document), indent=1) + "\n"
    spec = settings.trial.model
    unit = throughput_unit(spec.task, spec.resolution_px or 0).removesuffix("/s")
    size = f"{spec.resolution_px} px" if spec.resolution_px else ""
    title = title_of(settings, spec.variant, size)
    text = sizes_text(points, title=title, unit=unit)
    busy = {one.batch_size: one.contaminated for one in points if one.throughput}
    words = busy_words(busy.values())
    return f"{text}\n{words}\n" if words else text
