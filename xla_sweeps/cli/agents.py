"""The command `agents`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xla_sweeps.cli.arguments import RESULTS, add_config_dir, add_results_dir, command_parser
from xla_sweeps.errors import ConfigError
from xla_sweeps.report.terminal.sweep_progress import SweepProgress
from xla_sweeps.report.terminal.sweep_summary import show_headlines
from xla_sweeps.report.wandb.credentials import require_login
from xla_sweeps.store import rows, table
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.launchers import DEVICES, ONE_OR_MORE, wandb_agents
from xla_sweeps.sweeps.launchers.slots import slots_for
from xla_sweeps.system.process import Assignment


def agents_command(arguments: Sequence[str]) -> int:
    """Run W&B agents, one on each device, and show what they measured.

    Raises:
        XlaSweepsError: the sweep is not named by its path, or there is no key.
    """
    parser = command_parser("agents")
    parser.add_argument("sweep", metavar="ENTITY/PROJECT/ID", help="as `wandb sweep` prints it")
    parser.add_argument("--devices", **DEVICES)
    add_results_dir(parser, "--results-dir")
    parser.set_defaults(results_dir=None)  # the sweep's, else the usual one
    add_config_dir(parser)
    parser.add_argument(
        "--max-failed",
        type=ONE_OR_MORE,
        default=wandb_agents.MAX_FAILED,
        help="trials in a row that may fail before an agent gives up (default: 20)",
    )
    options = parser.parse_args(arguments)
    if not wandb_agents.PATH_PATTERN.fullmatch(options.sweep):
        raise ConfigError(f"agents {options.sweep}: expected ENTITY/PROJECT/ID of a sweep")
    require_login()
    slots = slots_for(options.devices)
    results_dir = options.results_dir or Path(RESULTS)
    own, folder = options.results_dir, options.config_dir
    places = Assignment(
        results_dir=str(own.resolve()) if own else "",
        config_dir=str(folder.path.resolve()) if folder else "",
        trusts_config=bool(folder and folder.trusted),
    )
    store = Store(results_dir)
    before = _records_of(store)
    with SweepProgress(f"agents of {options.sweep}", [slot.name for slot in slots]) as board:
        code = wandb_agents.run(
            options.sweep,
            slots=slots,
            results_dir=results_dir,
            screen=board,
            places=places,
            max_failed=options.max_failed,
        )
    measured = {trial for trial, _ in _records_of(store) - before}
    headlines = table.headlines(rows.load(results_dir).table, measured)
    show_headlines(headlines, results_dir)
    return code


def _records_of(store: Store) -> set[tuple[str, int]]:
    """Trial id and number of every record."""
    return {key for trial, _ in store.folders() for key in store.keys(trial)}
