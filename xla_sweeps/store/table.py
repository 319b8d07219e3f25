"""Rows and raw blocks as column tables: the only place that knows their types outside Python."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from xla_sweeps.analysis.cost import COSTS, per_million
from xla_sweeps.schema.row import COLUMNS, ComparisonRow, columns_of, row_of
from xla_sweeps.store.store import Store

if TYPE_CHECKING:  # slow to import
    import pyarrow
    import pyarrow.parquet

ORDER = ("family", "model", "resolution_px", "batch_size", "candidate", "baseline", "trial_id")
"""The columns by which rows are shown and kept."""

_ROWS_OF_TRIAL = 144  # more than the pairs of the modes that a trial may compare

_MIN_ROWS = 100_000  # number that is always accepted: trials may have been removed

_ROW_BYTES = 4096


@cache
def schema() -> pyarrow.Schema:
    """The columns of a row in their order; the types do not depend on what the rows hold."""
    import pyarrow

    kinds = {
        str: pyarrow.string(),
        bool: pyarrow.bool_(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
    }
    return pyarrow.schema([(column.name, kinds[column.kind]) for column in COLUMNS.values()])


def table_of(rows: Sequence[ComparisonRow]) -> pyarrow.Table:
    """Rows as a table."""
    import pyarrow

    return pyarrow.table(columns_of(rows), schema=schema())


def rows_of(table: pyarrow.Table) -> list[ComparisonRow]:
    """The rows of a table that `table_of` made."""
    return [row_of(document) for document in table.select(list(COLUMNS)).to_pylist()]


def add_price(table: pyarrow.Table, price_per_hour: float) -> pyarrow.Table:
    """The table with the price of a million samples and its interval as its last columns."""
    import pyarrow

    for name, throughput in COSTS.items():
        costs = [per_million(rate, price_per_hour) for rate in table[throughput].to_pylist()]
        table = table.append_column(name, pyarrow.array(costs, pyarrow.float64()))
    return table


def sort_rows(table: pyarrow.Table) -> pyarrow.Table:
    """The table sorted by `ORDER`."""
    return table.sort_by([(name, "ascending") for name in ORDER])


def join_tables(tables: Iterable[pyarrow.Table]) -> pyarrow.Table:
    """Tables one after the other, an empty one for none."""
    import pyarrow

    parts = list(tables)
    return pyarrow.concat_tables(parts) if parts else schema().empty_table()


def differing(kept: pyarrow.Table, fresh: pyarrow.Table) -> list[str]:
    """A line for each column of which two tables of the same rows hold different values."""
    import numpy as np
    from pyarrow import compute

    if kept.num_rows != fresh.num_rows:
        return [f"{kept.num_rows} rows instead of {fresh.num_rows}"]
    key = [(name, "ascending") for name in ("trial_id", "candidate", "baseline")]
    orders = [(table, compute.sort_indices(table, key)) for table in (kept, fresh)]
    differences = []
    for name, column in COLUMNS.items():
        there, here = (table[name].take(order).to_numpy() for table, order in orders)
        if column.kind is float:
            same = np.isclose(there, here, rtol=1e-6, atol=1e-12, equal_nan=True)
        else:  # a missing integer is NaN, which equals nothing
            same = (there == here) | ((there != there) & (here != here))
        for row in np.flatnonzero(~same)[:1].tolist():
            places = [order[row].as_py() for _, order in orders]
            trial, candidate, baseline = (fresh[part][places[1]].as_py() for part, _ in key)
            pair = f"{candidate} against {baseline} of {trial}"
            old, new = kept[name][places[0]].as_py(), fresh[name][places[1]].as_py()
            differences.append(f"{pair}: {name} is {old!r} there and {new!r} here")
    return differences


def headlines(
    table: pyarrow.Table, trials: Collection[str], *, requests: Collection[str] = ()
) -> list[ComparisonRow]:
    """The headline rows of these trials."""
    columns = (table[name].to_pylist() for name in ("headline", "trial_id", "request_id"))
    chosen = [
        headline and (trial in trials or request in requests)
        for headline, trial, request in zip(*columns, strict=True)
    ]
    return rows_of(table.filter(chosen)) if any(chosen) else []


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


def check_size(metadata: pyarrow.parquet.FileMetaData, trials: int) -> None:
    """Refuse a file that states more rows than this number of trials can have, or more bytes.

    Raises:
        ValueError: it does, or states more bytes than such rows need.
    """
    rows = max(_MIN_ROWS, _ROWS_OF_TRIAL * trials)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [[group.column(index) for group in groups] for index in range(metadata.num_columns)]
    most = max(metadata.num_rows, *(sum(part.num_values for part in each) for each in columns))
    size = sum(part.total_uncompressed_size for each in columns for part in each)
    if most > rows or size > rows * _ROW_BYTES:
        raise ValueError(
            f"holds {most:,} rows and {size / 2**20:,.0f} MiB unpacked, more than {trials:,} "
            "trials can have"
        )
