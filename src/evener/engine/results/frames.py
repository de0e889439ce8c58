"""Frames as files and HTML: CSV, Parquet and JSON, written whole or not at all."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evener.graph.files.atomic_file import replacing

if TYPE_CHECKING:
    import polars

TABLES = (".csv", ".tsv", ".parquet", ".json", ".jsonl", ".ndjson")
_COMPRESSED = (".gz", ".zst")


def suffix_of(path: Path) -> str:
    """The suffix of the format, without that of compression.

    Examples
    --------
    >>> from pathlib import Path
    >>> from evener.engine.results.frames import suffix_of
    >>> suffix_of(Path("ranks.CSV.gz"))
    '.csv'
    """
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in _COMPRESSED else suffix


def write_table(frame: polars.DataFrame, path: Any, suffix: str | None = None) -> None:
    """Write a frame in the format of a suffix, by default its path's; the file appears whole.

    A name that ends in ``.gz`` or ``.zst`` is compressed. JSON has no infinities: there, values
    that are not finite are null.

    Examples
    --------
    >>> import polars
    >>> from evener.engine.results.frames import write_table
    >>> write_table(polars.DataFrame({"vertex": [3], "depth": [1]}), tmp_path / "d.csv")
    >>> (tmp_path / "d.csv").read_text()
    'vertex,depth\\n3,1\\n'
    """
    path = Path(path).expanduser()
    suffix, frame = suffix_of(path) if suffix is None else suffix, _plain_columns(frame)
    file: Any
    with replacing(path) as file:
        if suffix == ".parquet":
            frame.write_parquet(file)
        elif suffix == ".json":
            frame.write_json(file)
        elif suffix in (".jsonl", ".ndjson"):
            frame.write_ndjson(file)
        else:
            _with_a_column_each(frame).write_csv(file, separator="\t" if suffix == ".tsv" else ",")


def show(value: Any) -> str:
    """A value in a table: floats to six digits, None as a dash.

    Examples
    --------
    >>> from evener.engine.results.frames import show
    >>> show(0.123456789), show(12), show(None)
    ('0.123457', '12', '-')
    """
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def as_html(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table for notebooks, its values formatted by `show`.

    Examples
    --------
    >>> from evener.engine.results.frames import as_html
    >>> as_html("a < b", ["x"], [[0.5]])
    '<table><caption>a &lt; b</caption><tr><th>x</th></tr><tr><td>0.5</td></tr></table>'
    """

    def row(tag: str, values: Iterable[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(value)}</{tag}>' for value in values)}</tr>"

    body = "".join(row("td", map(show, values)) for values in rows)
    return f"<table><caption>{html.escape(caption)}</caption>{row('th', columns)}{body}</table>"


def _with_a_column_each(frame: polars.DataFrame) -> polars.DataFrame:
    """The frame with a column per device instead of lists, which CSV lacks."""
    import polars

    for name, dtype in frame.schema.items():
        if isinstance(dtype, polars.List):
            length = int(frame[name].list.len().max() or 0)  # type: ignore[arg-type]
            parts = [polars.col(name).list.get(p).alias(f"{name}_{p}") for p in range(length)]
            frame = frame.with_columns(parts).drop(name)
    return frame


def _plain_columns(frame: polars.DataFrame) -> polars.DataFrame:
    """The frame with labels as text, unless they are numbers or strings."""
    import polars

    for name, dtype in frame.schema.items():
        if dtype == polars.Object:
            texts: list[Any] = [None if v is None else str(v) for v in frame[name].to_list()]
            frame = frame.with_columns(polars.Series(name, texts, dtype=polars.String))
    return frame
