"""The command `shapes`: what new shapes cost in each mode, and from how many calls XLA pays."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from xla_sweeps.analysis.shapes import Price, price_of
from xla_sweeps.cli.arguments import add_model, command_parser, require_model
from xla_sweeps.cli.sweep import Request, measure_aside, plan_of, slots_of, title_of, trials_of
from xla_sweeps.cli.sweep_options import Options
from xla_sweeps.config import catalog
from xla_sweeps.config.scenario import check_shapes
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.report import export
from xla_sweeps.report.overall import busy_words
from xla_sweeps.report.terminal.shapes import shapes_text
from xla_sweeps.schema.measurement import Status
from xla_sweeps.sweeps.definition import Parameter, load_sweep

_CHOSEN = {
    "scenario": "the scenario is new_shapes",
    "shapes": "--sizes or --batches chooses the shapes",
}
"""Keys that the command sets itself."""

_EXAMPLES = """\
  xla-sweeps shapes model=mobilenet_v2 --sizes 224,256,288
  xla-sweeps shapes model=mobilenet_v2 --batches 32,32,7
  xla-sweeps shapes model=local path=net.py:build trust_code=true --batches 8,3
"""


def shapes_command(arguments: Sequence[str]) -> int:
    """Measure what is missing, and show the price; exit code 1 if no number of calls pays."""
    options = _parser().parse_intermixed_args(list(arguments))
    export.require_writable(options.output)
    require_model("shapes", options.overrides, _CHOSEN)
    shapes = _shapes(options.sizes, options.batches)
    path = catalog.shipped_sweeps()["new_shapes"]
    asked = Options.of_answer(path, options)
    sweep = load_sweep(path)
    given = Parameter(distribution="constant", values=(shapes,))
    definition = replace(sweep, parameters={**sweep.parameters, "shapes": given})
    again = ("xla-sweeps", "shapes", *arguments)
    request = Request(asked, definition, slots_of(asked)[:1], again=again, compares=False)
    plan = plan_of(request, self_checks=False)
    code = measure_aside(request, plan)
    if code > 128 or options.dry_run:
        return code
    settings = request.composer.settings(plan.tasks[0].words)
    _, records, summaries = trials_of(plan, settings.results_dir)
    name, summary = next(iter(summaries.items()), ("", None))
    price = price_of(summary, records[name]) if summary else None
    if not summary or not price or not price.shapes:
        raise StoreError("shapes: no mode was measured; see why: xla-sweeps results")
    if options.format == "json":
        text = msgspec.json.format(msgspec.json.encode(_document(price)), indent=1).decode() + "\n"
    else:
        trial = settings.trial
        title = title_of(settings, trial.model.variant, f"shapes {' '.join(trial.shapes)}")
        words = busy_words([Status.CONTAMINATED in summary.flags])
        text = shapes_text(price, trial.shapes, title=title) + (f"{words}\n" if words else "")
    export.write_text(text, options.output)
    return 0 if price.ways else 1


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "shapes",
        "Calls a new function of each mode on each shape, first once and then again, many times "
        "over. Says what a new shape costs, how many programs it makes, what takes the least time "
        "by the number of calls, padding to one to three of the shapes included, and what to "
        "write. The records are kept; effort.replicates=4 adds to them, for narrower intervals.",
        examples=_EXAMPLES,
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
    numbers = [word.strip() for word in sizes.split(",") if sizes]
    counts = [word.strip() for word in batches.split(",") if batches]
    given = (("--sizes", sizes, numbers), ("--batches", batches, counts))
    for option, text, words in given:
        if not all(re.fullmatch("[1-9][0-9]{0,5}", word) for word in words):
            raise ConfigError(f"{option} {text}: expected numbers from 1, as in 32,32,7")
    names = [*numbers, *(f"b{count}" for count in counts)]
    written = " ".join(f"{option} {text}" for option, text, _ in given if text)
    check_shapes(names, written, as_in="as in --sizes 224,256,288 or --batches 32,7")
    return [int(name) if name.isdecimal() else name for name in names]


def _document(price: Price) -> dict[str, object]:
    """The price in seconds; a bound that is infinite becomes null."""
    return {
        "shapes": price.shapes,
        "ways": [{"name": w.name, "once_s": w.once_s, "each_s": w.each_s} for w in price.ways],
        "steps": price.steps,
        "recompiling": price.recompiling,
        "failed": [dict(zip(("mode", "status", "why"), one, strict=True)) for one in price.failed],
    }
