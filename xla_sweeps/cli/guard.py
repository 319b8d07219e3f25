"""The command `guard`: did a pull request, a version or a flag make the model slower?"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence

from xla_sweeps.analysis.guard import LOOK, MAX_PAIRS
from xla_sweeps.cli.arguments import (
    add_fail_on,
    add_model,
    command_parser,
    conditions_of,
    require_model,
)
from xla_sweeps.config.values import SECONDS, quantity_in
from xla_sweeps.errors import LEFT_CODE
from xla_sweeps.report import export
from xla_sweeps.report.figures import duration
from xla_sweeps.report.guard import UNJUDGED, document_of, markdown_of, text_of, verdicts_of
from xla_sweeps.report.terminal.console import progress_console, say, warn
from xla_sweeps.report.terminal.progress import TrialProgress
from xla_sweeps.schema.overrides import keys_of
from xla_sweeps.store.store import folder_below
from xla_sweeps.system.text import count_noun, displayable
from xla_sweeps.trial.guard import Plan, judged_modes, run_guard
from xla_sweeps.trial.recording import make_stamp
from xla_sweeps.trial.sides import Side, require_comparable, side_of

FAIL_ON = ("slower", "faster", "broke", "unjudged")

FAILS = ("slower", "broke")
"""Conditions unless others are given, here and in `action.yml`."""

_SHARE = quantity_in({"%": 0.01, "": 0.01}, "0.1% to 100%", least=0.001, most=1)


def guard_command(arguments: Sequence[str]) -> int:
    """Measure both sides in turns; exit code 1 if --fail-on is met, 3 if a mode is unjudged."""
    options = _parser().parse_intermixed_args(list(arguments))
    conditions = conditions_of(options.fail_on or FAILS, FAIL_ON)
    export.require_writable(options.output)
    require_model("guard", options.overrides)
    before, after = (
        side_of(name, text, options.overrides, own, config_dir=options.config_dir)
        for name, text, own in (
            ("before", options.before, options.before_with),
            ("after", options.after, options.after_with),
        )
    )
    require_comparable(before.settings.trial, after.settings.trial)
    plan = _plan(before, after, options)
    _announce(plan)
    with TrialProgress(ui=before.settings.ui, brief=True) as screen:
        result = run_guard(plan, screen=screen)
    if result.stopped:
        done = count_noun(len(result.pairs), "pair")
        warn(f"stopped after {done}; no verdict, as the looks are fixed")
        return 128 + result.stopped
    document = document_of(result, shlex.join(["xla-sweeps", "guard", *arguments]))
    if options.format == "json":
        export.write_json(document, options.output)
    else:
        write = markdown_of if options.format == "md" else text_of
        export.write_text(write(document), options.output)
    # a mode that broke may have a clear change too
    verdicts = {*verdicts_of(result).values(), *(str(one.verdict) for one in result.changes)}
    return 1 if verdicts & {*conditions} else LEFT_CODE if UNJUDGED in verdicts else 0


def _plan(before: Side, after: Side, options: argparse.Namespace) -> Plan:
    trials = (side.settings.trial for side in (before, after))
    logs = folder_below(before.settings.results_dir, "logs", "guard") / make_stamp()
    words = [*options.overrides, *before.own, *after.own]
    chosen = bool({"modes", "jit"} & keys_of(words))
    return Plan(
        before=before,
        after=after,
        modes=judged_modes(*trials, chosen=chosen),
        budget_s=options.budget,
        detect=options.detect,
        logs=logs.absolute(),
    )


def _announce(plan: Plan) -> None:
    """Say what is going to happen, before it does."""
    console = progress_console()
    for side in (plan.before, plan.after):
        own = f"  {' '.join(side.own)}" if side.own else ""
        text = f"{side.name:6}  {side.python}  in {side.folder}{own}"
        say(displayable(text), console=console)
    say(
        f"modes   {', '.join(plan.modes)}; one pair of processes that does not count, then {LOOK} "
        f"to {MAX_PAIRS} pairs, at most {duration(plan.budget_s)} in all",
        console=console,
    )
    if len({(side.python, side.folder, side.own) for side in (plan.before, plan.after)}) == 1:
        warn("both sides are the same: an A/A check, which finds no change if all is well")


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "guard",
        "Measures two environments in pairs of fresh processes that take turns block by block. "
        "Exit code 0 if no condition of --fail-on is met, 1 if one is, 2 if the request cannot be "
        "carried out, 3 if a mode could not be judged.",
    )
    place = "a python, or the folder of a virtual environment; DIR is the folder that the model's "
    place += "code is in (default: the current one)"
    own = "an option of this side alone, such as a flag (repeatable)"
    add = parser.add_argument
    for name in ("before", "after"):
        add(f"--{name}", required=True, metavar="ENV[@DIR]", help=place)
        add(f"--{name}-with", action="append", default=[], metavar="KEY=VALUE", help=own)
    text = "time for all pairs, such as 120 (seconds), 20min or 1h (default: 20min)"
    parser.add_argument("--budget", type=SECONDS, default=1200.0, metavar="TIME", help=text)
    text = "the smallest change that matters: within it the sides are equivalent (default: 5%%)"
    parser.add_argument("--detect", type=_SHARE, default=0.05, metavar="PERCENT", help=text)
    add_fail_on(parser, FAIL_ON, f" (default: {','.join(FAILS)}; '' for none)")
    add_model(parser, "text", "md", "json", overrides="options of a trial, of both sides")
    return parser
