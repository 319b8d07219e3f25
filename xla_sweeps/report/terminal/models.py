"""Show the catalog, one model, and the replicas of Hub models."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from xla_sweeps.config.catalog import SOURCES, CatalogEntry
from xla_sweeps.report.figures import digits, millions, size
from xla_sweeps.report.terminal import console
from xla_sweeps.schema.trial import size_text
from xla_sweeps.system.installation import how_to_install
from xla_sweeps.system.text import count_noun


def show_models(entries: Sequence[CatalogEntry]) -> None:
    """Show the catalog, one line per model; a narrow terminal gets fewer columns."""
    hidden = ((), ("variant",), ("variant", "family"), ("variant", "family", "sources"))
    console.print_table(*(_models_table(entries, names) for names in hidden))
    count = count_noun(len(entries), "model")
    text = "params and multiply-accumulates (MACs) as published, at px; "
    text += "the first source is the default"
    console.paragraph(f"{count}; {text}", "dim")


def model_facts(entry: CatalogEntry) -> dict[str, Any]:
    """A model as plain data: sources joined by blanks, None for what is not published."""
    published = entry.published
    return {
        "name": entry.name,
        "family": entry.family,
        "variant": entry.variant,
        "task": entry.task,
        "sources": " ".join(entry.sources),
        "resolution_px": entry.resolution,
        "params_million": published.params_million if published else None,
        "gmacs": published.gmacs if published else None,
    }


def _models_table(entries: Sequence[CatalogEntry], hidden: Collection[str]) -> Table:
    shown = [name for name in ("model", "family", "variant", "sources") if name not in hidden]
    numbers = ("px", "params M", "GMACs")
    wrapped = ("sources",) if "family" in hidden else ()
    table = console.empty_table(*shown, *numbers, right=numbers, wrapped=wrapped)
    for entry in entries:
        facts = model_facts(entry)
        cells = {**facts, "model": entry.name, "sources": ", ".join(entry.sources)}
        figures = millions(facts["params_million"]), digits(facts["gmacs"], 6)
        table.add_row(*(cells[name] for name in shown), str(entry.resolution), *figures)
    return table


def show_model(entry: CatalogEntry) -> None:
    """Show one model, one line per source: its constructor and its published figures."""
    facts = [entry.variant, entry.family, entry.task, size_text(entry.task, entry.resolution)]
    if entry.frames:
        facts.append(f"{entry.frames} frames")
    title = Text(f"{entry.name}  ", style="bold").append(" · ".join(facts), style="default")
    console.results_console().print(title)
    numbers, texts = ("params M", "GMACs"), ("built by", "needs")
    headings = ("source", "built by", *numbers, "needs")
    table = console.empty_table(*headings, right=numbers, wrapped=texts)
    for name, source in entry.sources.items():
        published, extra = entry.published_in(name), SOURCES[name].extra
        builder = source.recipe.get("constructor") or source.recipe.get("handle")
        table.add_row(
            name,
            f"{source.library}: {builder}",
            millions(published.params_million if published else None),
            digits(published.gmacs if published else None, 6),
            how_to_install(extra) if extra else "nothing more",
        )
    console.print_table(table)
    for name in entry.sources:
        published = entry.published_in(name)
        if published is None:
            continue
        console.paragraph(f"{name}: {published.params_source}", "dim")
        for note in filter(None, (published.params_note, published.gmacs_note)):
            console.paragraph(f"! {name}: {note}", "yellow")
    chosen = "" if len(entry.sources) == 1 else f" source={next(iter(entry.sources))}"
    console.say(f"\nxla-sweeps model={entry.name}{chosen}")


def show_replicas(rows: Sequence[tuple[str, Path, int | None]]) -> None:
    """Show copies of Hub models with random weights: name, folder, size in bytes or None."""
    table = console.empty_table("model", "size", right=("size",), gap=2)
    for name, _, count in rows:
        table.add_row(name, size(count) if count is not None else "not built")
    console.print_table(table)
    made = [count for _, _, count in rows if count is not None]
    console.paragraph(
        f"{len(made)} of {len(rows)} built, {size(sum(made))}, in {rows[0][1].parent}", "dim"
    )
