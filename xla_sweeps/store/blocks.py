"""Raw blocks of a results folder as a column table, of which all figures are derived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xla_sweeps.store.store import Store

if TYPE_CHECKING:  # slow to import
    import pyarrow


def blocks_of(store: Store, trials: pyarrow.ChunkedArray) -> tuple[pyarrow.Table, tuple[str, ...]]:
    """The blocks of these trials, a row each, as measured; and a line for each unusable file."""
    import pyarrow

    text, count, real = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
    kinds = {"trial": text, "model": text, "replicate": count, "round": count, "mode": text}
    kinds |= {"calls": count, "seconds": real, "fill_seconds": real}
    schema = pyarrow.schema([*kinds.items(), ("contaminated", pyarrow.bool_())])
    parts, problems = [schema.empty_table()], list[str]()
    for name in trials.unique().to_pylist():
        loaded = store.load(name)
        problems += loaded.problems
        blocks = [
            (
                *(name, record.model.name, record.replicate, each.round, block.mode, block.calls),
                *(block.elapsed_ns / 1e9, block.fill_ns / 1e9, bool(each.dirty)),
            )
            for record in loaded.records.get(name, ())
            for each in record.rounds
            for block in each.blocks
        ]
        if blocks:
            parts.append(pyarrow.table(list(map(list, zip(*blocks, strict=True))), schema=schema))
    return pyarrow.concat_tables(parts), tuple(problems)
