"""The commands `batch-sizes`, `predict-cost` and `shapes`: trials of one model, and their answer.

Each measures exactly what is missing on the first device, and shows what it costs.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xla_sweeps.analysis.batch_sizes import Point, is_done, knees_of, points_of
from xla_sweeps.analysis.pool import NOTHING
from xla_sweeps.analysis.predict_cost import sizes_of
from xla_sweeps.analysis.shapes import price_of
from xla_sweeps.cli.arguments import add_model, command_parser, read_trials, require_model
from xla_sweeps.cli.sweep import Request, measure_aside, not_measured, plan_of, slots_of
from xla_sweeps.cli.sweep_options import Options
from xla_sweeps.config import catalog
from xla_sweeps.config.scenario import MAX_BATCH, check_shapes
from xla_sweeps.config.settings import Settings
from xla_sweeps.config.values import numbers_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.report.advice import throughput_unit
from xla_sweeps.report.export import require_writable, write_json, write_text
from xla_sweeps.report.overall import busy_words
from xla_sweeps.report.terminal.batch_sizes import sizes_text
from xla_sweeps.report.terminal.console import warn
from xla_sweeps.report.terminal.predict_cost import cost_text, json_of
from xla_sweeps.report.terminal.shapes import shapes_text
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import TrialSummary, precision_words
from xla_sweeps.store import rows
from xla_sweeps.sweeps.definition import Parameter, Sweep, load_sweep
from xla_sweeps.sweeps.plan import Plan, final_outcome

AUTO = "auto"

_SIZE_EXAMPLES = """\
  xla-sweeps batch-sizes model=mobilenet_v2
  xla-sweeps batch-sizes model=resnet50 device=gpu --until memory
  xla-sweeps batch-sizes model=mobilenet_v2 --sizes 1,8,32 'modes=[graph,xla]'
"""

_COST_EXAMPLES = """\
  xla-sweeps predict-cost model=mobilenet_v2
  xla-sweeps predict-cost model=resnet50 keras=2 --batch-sizes 1,4,16
  xla-sweeps predict-cost model=tiny_dense 'modes=[call_host,predict]'
"""

_SHAPE_EXAMPLES = """\
  xla-sweeps shapes model=mobilenet_v2 --sizes 224,256,288
  xla-sweeps shapes model=mobilenet_v2 --batches 32,32,7
  xla-sweeps shapes model=local path=net.py:build trust_code=true --batches 8,3
"""

_CHOSEN = {
    "batch-sizes": {"batch_size": "--sizes chooses the sizes"},
    "predict-cost": {
        "scenario": "the scenario is predict",
        "batch_size": "--batch-sizes chooses the sizes",
        "batches": "--batches chooses the numbers of batches",
        "effort.duplicates": "effort.replicates chooses how often each size is measured",
    },
    "shapes": {
        "scenario": "the scenario is new_shapes",
        "shapes": "--sizes or --batches chooses the shapes",
    },
}
"""Keys that each command sets itself."""


def batch_sizes_command(arguments: Sequence[str]) -> int:
    """Measure what is missing, size by size, and show it all; exit code 1 if no mode ran."""
    options = _sizes_parser().parse_intermixed_args(list(arguments))
    require_writable(options.output)
    sizes = [2**power for power in range(MAX_BATCH.bit_length())]
    if options.sizes != AUTO:
        sizes = numbers_of(options.sizes, "--sizes", least=1, most=MAX_BATCH)
    require_model("batch-sizes", options.overrides, _CHOSEN["batch-sizes"])
    sweep, points = replace(_load_shipped("batch_sizes"), parameters={}), list[Point]()
    base = _request("batch-sizes", arguments, options, sweep)
    for size in sizes:
        request = replace(base, sweep=_vary(sweep, batch_size=[size]))
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
        settings, _, records, summaries = _trials_of(request, plan)
        for name, summary in summaries.items():
            points += points_of(summary, records[name])
        is_auto, limit = options.sizes == AUTO, options.until == "memory"
        if is_auto and (not points or is_done(points, to_the_limit=limit)):
            break
    if options.dry_run:
        return 0
    if not points:
        raise not_measured(request, "batch-sizes: no size")
    busy = {point.batch_size: point.contaminated for point in points if point.throughput}
    document = {"points": points, "knees": knees_of(points)}
    _show(options, document, _sizes_text(points, settings), busy.values())
    return 0 if any(point.throughput for point in points) else 1


def _sizes_parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "batch-sizes",
        "Runs a trial for batch sizes 1, 2, 4, ... until two sizes in a row gain less than 5 %, or "
        "memory runs out in every mode. Says from which size on each mode is within 5 % of its "
        "most throughput. The records are kept: run it again to measure exactly what is missing.",
        examples=_SIZE_EXAMPLES,
    )
    add_model(parser, overrides="of every trial: model=mobilenet_v2 effort=standard")
    text = "auto (1, 2, 4, ...), or the sizes of one batch (default: auto)"
    parser.add_argument("--sizes", metavar="N,N", default=AUTO, help=text)
    text = "with --sizes auto: where to stop (default: knee)"
    parser.add_argument("--until", choices=("knee", "memory"), default="knee", help=text)
    text = "print the trials that are missing; of auto all that there may be"
    parser.add_argument("--dry-run", action="store_true", help=text)
    return parser


def _sizes_text(points: Sequence[Point], settings: Settings) -> str:
    """The points and the knees as text."""
    spec = settings.trial.model
    unit = throughput_unit(spec.task, spec.resolution_px or 0).removesuffix("/s")
    size = f"{spec.resolution_px} px" if spec.resolution_px else ""
    return sizes_text(points, title=_title(settings, spec.variant, size), unit=unit)


def predict_cost_command(arguments: Sequence[str]) -> int:
    """Measure what is missing, and show it all; exit code 1 if a trial failed."""
    sizes, several = _load_shipped("predict_cost"), _load_shipped("predict_batches")
    options = _cost_parser(sizes, several).parse_intermixed_args(list(arguments))
    require_writable(options.output)
    batch_sizes = numbers_of(options.batch_sizes, "--batch-sizes", least=2, most=MAX_BATCH)
    counts = numbers_of(options.batches, "--batches", least=0, most=MAX_BATCH)
    batches = [count for count in counts if count > 1]
    require_model("predict-cost", options.overrides, _CHOSEN["predict-cost"])
    sweeps = [_vary(sizes, batch_size=batch_sizes)]
    if batches:
        sweeps.append(_vary(several, batch_size=batch_sizes[1:2], batches=batches))
    request = _request("predict-cost", arguments, options, *sweeps)
    plan = plan_of(request, self_checks=False)
    code = measure_aside(request, plan)
    if code > 128 or options.dry_run:
        return code
    _answer_cost(request, plan, options)
    failed = any(final_outcome(task.outcomes) not in task.counted for task in plan.tasks)
    return 1 if code or failed else 0


def _cost_parser(sizes: Sweep, several: Sweep) -> argparse.ArgumentParser:
    parser = command_parser(
        "predict-cost",
        "Runs a trial of scenario=predict for each batch size, and for several batches in one "
        "predict. Says what a call takes in each way to call the model, and how much more than "
        "a tf.function. The records are kept: run it again to measure exactly what is missing. "
        "effort.replicates=2 adds to what a busy machine left open.",
        examples=_COST_EXAMPLES,
    )
    add_model(parser, overrides="of every trial: model=mobilenet_v2 effort=standard")
    usual = ",".join(map(str, sizes.parameters["batch_size"].values))
    text = f"two or more sizes of one batch (default: {usual})"
    parser.add_argument("--batch-sizes", metavar="N,N", default=usual, help=text)
    usual = ",".join(map(str, several.parameters["batches"].values))
    text = f"batches of one call, at the second of the batch sizes (default: {usual})"
    parser.add_argument("--batches", metavar="N,N", default=usual, help=text)
    parser.add_argument("--dry-run", action="store_true", help="print the trials that are missing")
    return parser


def _answer_cost(request: Request, plan: Plan, options: argparse.Namespace) -> None:
    """Write the cost of each mode at each size."""
    settings, measured, records, summaries = _trials_of(request, plan)
    pools = measured.pools()
    sizes = sizes_of(
        (summary, records[name], pools.get(name, NOTHING)) for name, summary in summaries.items()
    )
    comparable = {label for size in sizes if size.batches == 1 for label in size.references}
    labels = [label for label in settings.trial.modes if label in comparable]
    if not labels:
        raise not_measured(request, "predict-cost: no mode")
    spec = settings.trial.model
    size = next((summary.model.size for summary in summaries.values() if summary.model.size), "")
    named = " ".join(filter(None, (spec.variant, size)))
    title = _title(settings, named, f"Keras {spec.keras}" if spec.keras else "")
    text = cost_text(sizes, labels, title=title)
    _show(options, json_of(sizes, labels), text, map(_is_busy, summaries.values()))


def shapes_command(arguments: Sequence[str]) -> int:
    """Measure what is missing, and show the price; exit code 1 if no number of calls pays."""
    options = _shapes_parser().parse_intermixed_args(list(arguments))
    require_writable(options.output)
    require_model("shapes", options.overrides, _CHOSEN["shapes"])
    shapes = _shapes(options.sizes, options.batches)
    sweep = _vary(_load_shipped("new_shapes"), shapes=[shapes])
    request = _request("shapes", arguments, options, sweep)
    plan = plan_of(request, self_checks=False)
    code = measure_aside(request, plan)
    if code > 128 or options.dry_run:
        return code
    settings, _, records, summaries = _trials_of(request, plan)
    name, summary = next(iter(summaries.items()), ("", None))
    price = price_of(summary, records[name]) if summary else None
    if not summary or not price or not price.shapes:
        raise not_measured(request, "shapes: no mode")
    document = {
        "shapes": price.shapes,
        "ways": [{"name": w.name, "once_s": w.once_s, "each_s": w.each_s} for w in price.ways],
        "steps": price.steps,
        "recompiling": price.recompiling,
        "failed": [dict(zip(("mode", "status", "why"), one, strict=True)) for one in price.failed],
    }
    trial = settings.trial
    title = _title(settings, trial.model.variant, f"shapes {' '.join(trial.shapes)}")
    text = shapes_text(price, trial.shapes, title=title)
    _show(options, document, text, [_is_busy(summary)])
    return 0 if price.ways else 1


def _shapes_parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "shapes",
        "Calls a new function of each mode on each shape, first once and then again, many times "
        "over. Says what a new shape costs, how many programs it makes, what takes the least time "
        "by the number of calls, padding to one to three of the shapes included, and what to "
        "write. The records are kept; effort.replicates=4 adds to them, for narrower intervals.",
        examples=_SHAPE_EXAMPLES,
    )
    add_model(parser, overrides="of the trial: model=mobilenet_v2 backend=jax 'modes=[graph,xla]'")
    text = "sides of an image, px, or lengths of a sequence; one that is given twice counts twice"
    parser.add_argument("--sizes", metavar="N,N", default="", help=text)
    text = "batch sizes, as of an epoch with a smaller last batch: 32,32,7"
    parser.add_argument("--batches", metavar="N,N", default="", help=text)
    parser.add_argument("--dry-run", action="store_true", help="print the trial, if it is missing")
    return parser


def _shapes(sizes: str, batches: str) -> list[int | str]:
    """The shapes in the order given, as the option `shapes` has them."""
    if not sizes and not batches:
        raise ConfigError("shapes: give --sizes 224,256,288 or --batches 32,32,7, or both")
    names: list[int | str] = []
    given = [pair for pair in (("--sizes", sizes), ("--batches", batches)) if pair[1]]
    for option, text in given:
        words = [word.strip() for word in text.split(",")]
        if not all(re.fullmatch("[1-9][0-9]{0,5}", word) for word in words):
            raise ConfigError(f"{option} {text}: expected numbers from 1, as in 32,32,7")
        names += [int(word) if option == "--sizes" else f"b{word}" for word in words]
    written = " ".join(f"{option} {text}" for option, text in given)
    as_in = "as in --sizes 224,256,288 or --batches 32,7"
    check_shapes([str(name) for name in names], written, as_in=as_in)
    return names


def _load_shipped(name: str) -> Sweep:
    """A definition that comes with the package."""
    return load_sweep(catalog.shipped_sweeps()[name])


def _vary(sweep: Sweep, **given: Sequence[object]) -> Sweep:
    """The definition with other values of these parameters."""
    values = {
        key: Parameter(distribution="categorical", values=tuple(one)) for key, one in given.items()
    }
    return replace(sweep, parameters={**sweep.parameters, **values})


def _request(
    command: str, arguments: Sequence[str], given: argparse.Namespace, *sweeps: Sweep
) -> Request:
    """The request of a command; other load makes its intervals wider, and counts."""
    first, *more = sweeps
    asked = Options(
        file=catalog.shipped_sweeps()[first.name],
        overrides=given.overrides,
        config_dir=given.config_dir,
        dry_run=given.dry_run,
        accept_contaminated=True,
    )
    again = ("xla-sweeps", command, *arguments)
    return Request(asked, first, slots_of(asked)[:1], tuple(more), again, compares=False)


def _trials_of(
    request: Request, plan: Plan
) -> tuple[Settings, rows.Rows, Mapping[str, Sequence[Record]], Mapping[str, TrialSummary]]:
    """Settings of the first trial and rows of its folder; records and summaries of a plan."""
    settings = request.composer.settings(plan.tasks[0].words)
    ids = {name for task in plan.tasks for name in task.trial_ids}
    kept = rows.load(settings.results_dir)
    return settings, kept, *read_trials(settings.results_dir, kept, only=ids)


def _title(settings: Settings, *facts: str) -> str:
    """The title of an answer: these facts, the precision and the device."""
    precision = precision_words(settings.trial.precision, settings.trial.tf32)
    device = settings.device.name or settings.device.label
    return " · ".join(filter(None, (*facts, *precision, device)))


def _is_busy(summary: TrialSummary) -> bool:
    return Status.CONTAMINATED in summary.flags


def _show(options: argparse.Namespace, document: object, text: str, busy: Iterable[bool]) -> None:
    """Write an answer as data or as text, which ends with how much of it load contaminated."""
    if options.format == "json":
        return write_json(document, options.output)
    words = busy_words(busy)
    write_text(f"{text}\n{words}\n" if words else text, options.output)
