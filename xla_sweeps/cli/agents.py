"""The command `agents`."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from xla_sweeps.cli import hydra_line
from xla_sweeps.cli.arguments import RESULTS, add_config_dir, add_results_dir, command_parser
from xla_sweeps.config import values
from xla_sweeps.config.compose import compose_config
from xla_sweeps.errors import ConfigError
from xla_sweeps.report.terminal.console import warn
from xla_sweeps.report.terminal.progress import SweepProgress
from xla_sweeps.report.terminal.sweep_summary import show_headlines, show_sums
from xla_sweeps.report.wandb.credentials import require_login
from xla_sweeps.schema.columns import AA_TAG
from xla_sweeps.schema.options import GROUPS, OPTIONS
from xla_sweeps.schema.overrides import key_of, option_of, overrides
from xla_sweeps.store import rows, table
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.compose import Composer
from xla_sweeps.sweeps.launchers import ONE_OR_MORE, wandb_agents
from xla_sweeps.sweeps.launchers.slots import ahead_on, places, slots_for
from xla_sweeps.sweeps.launchers.wandb_agents import AgentsLauncher
from xla_sweeps.sweeps.plan import add_duplicates, count_for_twin, twin_words
from xla_sweeps.system.process import Assignment

_OWN = (
    *(one.name for one in OPTIONS if one.foreign == "nothing" and one.name != "results_dir"),
    *("weights", "data", "tracker", "ui", "timeouts", "memory_limit_gib"),
)
"""Options of agents: what says where, and what a server may not set."""


def agents_command(arguments: Sequence[str]) -> int:
    """Run W&B agents, one on each device, and show what they measured.

    Raises:
        XlaSweepsError: the sweep is not named by its path, or there is no key.
    """
    parser = command_parser("agents")
    parser.add_argument("sweep", metavar="ENTITY/PROJECT/ID", help="as `wandb sweep` prints it")
    own = "what your own command line may set alone, as in trust_code=true or tracker=wandb_offline"
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=own)
    for name, declared in AgentsLauncher.options.items():
        parser.add_argument(f"--{name}", **declared)
    add_results_dir(parser, "--results-dir", usual=f"the sweep's, else {RESULTS}")
    parser.set_defaults(results_dir=None)
    add_config_dir(parser)
    text = "trials in a row that may fail before an agent gives up (default: 20)"
    most = wandb_agents.MAX_FAILED
    parser.add_argument("--max-failed", type=ONE_OR_MORE, default=most, help=text)
    options = parser.parse_intermixed_args(arguments)
    if not wandb_agents.PATH_PATTERN.fullmatch(options.sweep):
        raise ConfigError(f"agents {options.sweep}: expected ENTITY/PROJECT/ID of a sweep")
    for word in options.overrides:
        if option_of(word) not in _OWN:
            raise ConfigError(f"agents {word}: the sweep sets it; allowed: {', '.join(_OWN)}")
    document = compose_config(options.overrides, config_dir=options.config_dir)
    for name in {option_of(word) for word in options.overrides} & {*GROUPS}:
        values.choice(document, name)
    require_login()
    slots = slots_for(options.devices)
    ahead, less = ahead_on(slots, options.ahead or 0)
    warn(*filter(None, [less]))
    results_dir = options.results_dir or Path(RESULTS)
    words = [*options.overrides]
    words += overrides({"results_dir": str(results_dir.resolve())} if options.results_dir else {})
    words += options.config_dir.absolute().words if options.config_dir else []
    store = Store(results_dir)
    before = _records_of(store)
    names = [slot.name for slot in places(slots, ahead)]
    with SweepProgress(f"agents of {options.sweep}", names) as board:
        code = wandb_agents.run(
            options.sweep,
            slots=slots,
            results_dir=results_dir,
            screen=board,
            words=words,
            max_failed=options.max_failed,
            ahead=ahead,
        )
    measured = {trial for trial, _ in _records_of(store) - before}
    headlines = table.headlines(rows.load(results_dir).table, measured)
    show_headlines(headlines, results_dir)
    twins = {row.trial.trial_id for row in headlines if row.provenance.purpose == AA_TAG}
    show_sums(headlines, len(measured), len(twins))
    return code


def run_checked(
    asked: Namespace, assignment: Assignment, run: Callable[[Namespace, Assignment], int]
) -> int:
    """Run an agent's trial with the checks of a sweep: some twice, some with an A/A twin after it.

    The twin has a run of its own on W&B, in the project of the sweep.
    """
    composer = Composer((), slots=None, config_dir=asked.config_dir)
    task = composer.of_words(asked.overrides)
    of_twin = twin_words(task)
    add_duplicates([task], whole=False)
    if task.twice:
        kept = (word for word in asked.overrides if key_of(word) != "effort.replicates")
        asked.overrides = [*kept, "effort.replicates=2"]
    code = run(asked, assignment)
    if code not in (0, 1) or not count_for_twin(Path(assignment.counted), task.effort):
        return code
    try:
        twin = composer.of_words(of_twin)
    except ConfigError as error:  # the trial itself is measured
        warn(f"no A/A twin: {error}")
        return code
    if twin.request_id == task.request_id:
        return code
    tracker = composer.settings(task.words).tracker.name
    for name in ("WANDB_SWEEP_ID", "WANDB_RUN_ID", "WANDB_SWEEP_PARAM_PATH"):
        os.environ.pop(name, None)
    words = [word for word in twin.words if key_of(word) != "tracker"]
    end = run(hydra_line.parse([*words, f"tracker={tracker}"]), Assignment())
    return end if end >= 128 else code


def _records_of(store: Store) -> set[tuple[str, int]]:
    """Trial id and number of every record."""
    return {key for trial, _ in store.folders() for key in store.keys(trial)}
