"""The command `predict-cost`: what `model.predict` costs at each batch size."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from xla_sweeps.analysis.pool import NOTHING
from xla_sweeps.analysis.predict_cost import sizes_of
from xla_sweeps.cli.arguments import add_model, command_parser, require_model
from xla_sweeps.cli.sweep import Request, measure_aside, plan_of, slots_of, title_of, trials_of
from xla_sweeps.cli.sweep_options import Options
from xla_sweeps.config import catalog
from xla_sweeps.config.scenario import MAX_BATCH
from xla_sweeps.config.settings import Settings
from xla_sweeps.config.values import integer_from, numbers_of
from xla_sweeps.errors import StoreError
from xla_sweeps.report import export
from xla_sweeps.report.advice import throughput_unit
from xla_sweeps.report.overall import busy_words
from xla_sweeps.report.terminal.predict_cost import cost_text, json_of
from xla_sweeps.schema.measurement import Status
from xla_sweeps.sweeps.definition import Parameter, Sweep, load_sweep
from xla_sweeps.sweeps.plan import Plan, final_outcome

DEFINITIONS = ("predict_cost", "predict_batches")
"""The shipped sweeps: calls of one batch, by size; calls of several batches."""

_CHOSEN = {
    "scenario": "the scenario is predict",
    "batch_size": "--batch-sizes chooses the sizes",
    "batches": "--batches chooses the numbers of batches",
    "effort.duplicates": "effort.replicates chooses how often each size is measured",
}
"""Keys that the command sets itself."""

_EXAMPLES = """\
  xla-sweeps predict-cost model=mobilenet_v2
  xla-sweeps predict-cost model=resnet50 keras=2 --batch-sizes 1,4,16
  xla-sweeps predict-cost model=mobilenet_v2 --samples 1000
  xla-sweeps predict-cost model=tiny_dense 'modes=[call_host,predict]'
"""


def predict_cost_command(arguments: Sequence[str]) -> int:
    """Measure what is missing, and show it all; exit code 1 if a trial failed."""
    paths = catalog.shipped_sweeps()
    sizes, several = (load_sweep(paths[name]) for name in DEFINITIONS)
    options = _parser(sizes, several).parse_intermixed_args(list(arguments))
    export.require_writable(options.output)
    batch_sizes = numbers_of(options.batch_sizes, "--batch-sizes", least=2, most=MAX_BATCH)
    counts = numbers_of(options.batches, "--batches", least=0, most=MAX_BATCH)
    batches = [count for count in counts if count > 1]
    require_model("predict-cost", options.overrides, _CHOSEN)
    asked = Options.of_answer(paths[DEFINITIONS[0]], options)
    request = Request(
        asked,
        _vary(sizes, batch_size=batch_sizes),
        slots_of(asked)[:1],
        more=(_vary(several, batch_size=batch_sizes[1:2], batches=batches),) if batches else (),
        again=("xla-sweeps", "predict-cost", *arguments),
        compares=False,
    )
    plan = plan_of(request, self_checks=False)
    code = measure_aside(request, plan)
    if code > 128 or options.dry_run:
        return code
    settings = request.composer.settings(plan.tasks[0].words)
    text = _answer(plan, settings, samples=options.samples, form=options.format)
    export.write_text(text, options.output)
    failed = any(final_outcome(task.outcomes) not in task.counted for task in plan.tasks)
    return 1 if code or failed else 0


def _parser(sizes: Sweep, several: Sweep) -> argparse.ArgumentParser:
    parser = command_parser(
        "predict-cost",
        "Runs a trial of scenario=predict for each batch size, and for several batches in one "
        "predict. Says what a call takes in each way to call the model, and how much more than "
        "a tf.function. The records are kept: run it again to measure exactly what is missing. "
        "effort.replicates=2 adds to what a busy machine left open.",
        examples=_EXAMPLES,
    )
    add_model(parser, overrides="of every trial: model=mobilenet_v2 effort=standard")
    for name, values, text in (
        ("batch-sizes", sizes.parameters["batch_size"].values, "two or more sizes of one batch"),
        (
            "batches",
            several.parameters["batches"].values,
            "batches of one call, at the second of the batch sizes",
        ),
    ):
        written = ",".join(map(str, values))
        text += f" (default: {written})"
        parser.add_argument(f"--{name}", metavar="N,N", default=written, help=text)
    text = "also the cost of each way for this number of samples in all, and the fastest"
    parser.add_argument("--samples", type=integer_from(1, to=10**9), metavar="N", help=text)
    parser.add_argument("--dry-run", action="store_true", help="print the trials that are missing")
    return parser


def _vary(sweep: Sweep, **numbers: Sequence[int]) -> Sweep:
    """The definition with other values of these parameters."""
    values = {
        key: Parameter(distribution="categorical", values=tuple(one))
        for key, one in numbers.items()
    }
    return replace(sweep, parameters={**sweep.parameters, **values})


def _answer(plan: Plan, settings: Settings, *, samples: int | None, form: str) -> str:
    """The cost of each mode at each size, from the trials of a plan, as text or JSON."""
    measured, records, summaries = trials_of(plan, settings.results_dir)
    pools = measured.pools()
    sizes = sizes_of(
        (summary, records[name], pools.get(name, NOTHING)) for name, summary in summaries.items()
    )
    comparable = {label for size in sizes if size.batches == 1 for label in size.references}
    labels = [label for label in settings.trial.modes if label in comparable]
    if not labels:
        raise StoreError("predict-cost: no mode was measured; see what failed: xla-sweeps results")
    if form == "json":
        document = msgspec.to_builtins(json_of(sizes, labels, samples=samples))
        return json.dumps(document, indent=1) + "\n"
    spec = settings.trial.model
    unit = throughput_unit(spec.task, spec.resolution_px or 0).removesuffix("s/s")
    size = next((summary.model.size for summary in summaries.values() if summary.model.size), "")
    named = " ".join(filter(None, (spec.variant, size)))
    title = title_of(settings, named, f"Keras {spec.keras}" if spec.keras else "")
    text = cost_text(sizes, labels, title=title, unit=unit, samples=samples)
    words = busy_words(Status.CONTAMINATED in summary.flags for summary in summaries.values())
    return f"{text}\n{words}\n" if words else text
