"""Convert cells of a table to numbers: ids without a fraction, weights without lost digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evener.graph.files.text import narrowed

if TYPE_CHECKING:
    import polars

_WHOLE = r"^(0|[1-9][0-9]*)$"  # canonical numbers only: 007 is a name
_WHOLE_FLOAT = r"^(0|[1-9][0-9]*)\.0$"  # pandas writes 3.0 if a column has gaps
_INTEGER = r"^[+-]?[0-9]+$"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"


def is_number(cell: str | bytes) -> bool:
    """Whether a cell is a number, not a name.

    Examples
    --------
    >>> from evener.graph.files.values import is_number
    >>> is_number("1e3"), is_number("one")
    (True, False)
    """
    try:
        float(cell)
    except ValueError:
        return False
    return True


def whole_numbers(column: polars.Series) -> np.ndarray | None:
    """Convert text to whole numbers; None unless all cells are whole numbers.

    Examples
    --------
    >>> import polars
    >>> from evener.graph.files.values import whole_numbers
    >>> whole_numbers(polars.Series(["7", "10"])).tolist()
    [7, 10]
    """
    import polars as pl

    for pattern, kind in ((_WHOLE, pl.Int64), (_WHOLE_FLOAT, pl.Float64)):
        if len(column) and column.str.contains(pattern).all():
            numbers = column.cast(kind, strict=False).cast(pl.Int64, strict=False)
            if numbers.null_count() == 0:
                return numbers.to_numpy()
    return None


class Weights(NamedTuple):
    """A column as numbers, or else its first faulty row and the content of that row."""

    weights: np.ndarray | None
    row: int = 0
    what: str = ""
    is_text: bool = False  # whether no row holds a number


def weights_of(column: polars.Series) -> Weights:
    """Convert text to weights: integers if all are integers, else floats that lose no digits.

    Examples
    --------
    >>> import polars
    >>> from evener.graph.files.values import weights_of
    >>> weights_of(polars.Series(["7", "2.5"])).weights.tolist()
    [7.0, 2.5]
    >>> weights_of(polars.Series(["7", "heavy"])).what
    "'heavy'"
    """
    import polars as pl

    whole = column.cast(pl.Int64, strict=False)
    if whole.null_count() == 0:
        return Weights(narrowed(whole.to_numpy()))
    numbers = column.cast(pl.Float64, strict=False)
    bad = numbers.is_null() | numbers.is_nan()
    if bad.any():
        row = bad.arg_true()[0]
        what = "empty" if column[row] == "" else repr(column[row])
        return Weights(None, row, what, is_text=numbers.null_count() == len(column))
    infinite = numbers.is_infinite() & ~column.str.contains(_INFINITE)
    if infinite.any():
        row = infinite.arg_true()[0]
        return Weights(None, row, f"{column[row]!r}, too large for a float")
    long = (column.str.contains(_INTEGER) & (column.str.len_bytes() > 15)).arg_true()
    for row in long:
        if int(numbers[row]) != int(column[row]):
            return Weights(None, row, f"{column[row]!r}, which loses digits as a float")
    return Weights(numbers.to_numpy())
