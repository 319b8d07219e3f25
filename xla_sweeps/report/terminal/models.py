"""Show the catalog, one model, and the replicas of Hub models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from xla_sweeps.config.catalog import SOURCES, CatalogEntry
from xla_sweeps.errors import EXTRAS
from xla_sweeps.report.terminal.console import paragraph, results_console, size


def show_models(entries: Sequence[CatalogEntry]) -> None:
    """Show the catalog, one line per model."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("model", "family", "variant", "sources"):
        table.add_column(name, no_wrap=True)
    for name in ("px", "params M", "GMACs"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in entries:
        published = entry.published
        table.add_row(
            entry.name,
            entry.family,
            entry.variant,
            ", ".join(entry.sources),
            str(entry.resolution),
            _million(published.params_million) if published else "—",
            f"{published.gmacs:g}" if published and published.gmacs is not None else "—",
        )
    console = results_console()
    console.print(table)
    console.print(
        Text(
            f"{len(entries)} models; params and multiply-accumulates as published, at px",
            style="dim",
        )
    )


def show_model(entry: CatalogEntry) -> None:
    """Show one model, one line per source: its constructor and its published figures."""
    console = results_console()
    facts = [entry.variant, entry.family, entry.task, f"{entry.resolution} px"]
    if entry.frames:
        facts.append(f"{entry.frames} frames")
    console.print(Text(f"{entry.name}  ", style="bold").append(" · ".join(facts), style="default"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("source", "built by"):
        table.add_column(name, no_wrap=True)
    for name in ("params M", "GMACs"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("needs", no_wrap=True)
    for name, source in entry.sources.items():
        published, extra = entry.published_in(name), SOURCES[name].extra
        builder = source.recipe.get("constructor") or source.recipe.get("handle")
        table.add_row(
            name,
            f"{source.library}: {builder}",
            _million(published.params_million) if published else "—",
            f"{published.gmacs:g}" if published and published.gmacs is not None else "—",
            f"pip install {EXTRAS[extra]}" if extra else "nothing more",
        )
    console.print(table)
    for name in entry.sources:
        published = entry.published_in(name)
        if published is None:
            continue
        paragraph(console, f"{name}: {published.params_source}", style="dim", indent=2)
        for note in filter(None, (published.params_note, published.gmacs_note)):
            paragraph(console, f"! {name}: {note}", style="yellow", indent=2)
    chosen = "" if len(entry.sources) == 1 else f" source={next(iter(entry.sources))}"
    console.print(f"\nxla-sweeps model={entry.name}{chosen}", soft_wrap=True)


def show_replicas(rows: Sequence[tuple[str, Path, int | None]]) -> None:
    """Show copies of Hub models with random weights: name, folder, size in bytes or None."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("model", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    for name, _, number in rows:
        table.add_row(name, size(number) if number is not None else "not built")
    console = results_console()
    console.print(table)
    made = [number for _, _, number in rows if number is not None]
    console.print(
        Text(
            f"{len(made)} of {len(rows)} built, {size(sum(made))}, in {rows[0][1].parent}",
            style="dim",
        )
    )


def _million(number: float) -> str:
    return f"{number:.2f}" if number < 10 else f"{number:.1f}"
