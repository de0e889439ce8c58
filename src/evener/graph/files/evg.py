"""The native format: a folder of raw arrays, mapped into memory when opened.

``meta.json`` names the arrays, their dtypes, lengths and SHA-256 checksums, and carries a checksum
of itself. An array's file is named after its content, so saving over a graph writes new files
beside the old ones and then replaces ``meta.json``: that rename is the moment at which the new
graph is there. Opening reads ``meta.json`` and the sizes of the files, whatever their length.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import shutil
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evener import progress
from evener.errors import GraphError
from evener.graph.check import check
from evener.graph.csr import Graph
from evener.graph.files.columns import text_labels
from evener.graph.files.source import COMPRESSIONS, Source
from evener.graph.files.target import replacing, temporary_beside
from evener.graph.labels import Labels

VERSION = 1
_KIND = "evener graph"
_MAX_META_BYTES = 1 << 16
_DTYPES = {
    "indptr": ("int32", "int64"),
    "indices": ("int32", "int64"),
    "weights": ("int32", "int64", "float32", "float64"),
    "labels": ("int64",),
    "label_offsets": ("int64",),
    "label_text": ("uint8",),
}


def read(path: Path, directed: bool | None, *, verify: bool = False) -> Graph:
    """Open a graph; ``verify`` compares every array with its checksum."""
    source = Source(path)
    if not path.is_dir():
        source.fail("is not a folder; expected an .evg folder")
    meta = _read_meta(source)
    arrays = {name: _open_array(source, meta, name) for name in meta["arrays"]}
    _check_shapes(source, meta, arrays)
    if verify:
        _verify_checksums(source, meta, arrays)
    graph = Graph(
        arrays["indptr"], arrays["indices"], arrays.get("weights"),
        directed=meta["directed"], labels=_labels(meta, arrays),
    )  # fmt: skip
    if verify:
        _verify_contents(source, graph)
    if directed is True and not graph.directed:
        return Graph(*_arrays(graph), directed=True, labels=graph._labels)
    return graph.symmetrize() if directed is False else graph


def _arrays(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    return graph._indptr, graph._indices, graph._weights


def _read_meta(source: Source) -> dict[str, Any]:
    path = source.path / "meta.json"
    try:
        if path.stat().st_size > _MAX_META_BYTES:
            source.fail("meta.json is too long to be one")
        meta = json.loads(path.read_bytes())
    except FileNotFoundError:
        source.fail("has no meta.json; expected an .evg folder")
    except OSError as error:
        source.fail(f"meta.json cannot be read: {error.strerror}")
    except (ValueError, RecursionError):
        source.fail("meta.json is not JSON")
    if not isinstance(meta, dict) or meta.get("kind") != _KIND:
        source.fail("meta.json does not describe a graph")
    if meta.get("version") != VERSION:
        source.fail(f"is of version {meta.get('version')!r}; this Evener reads version {VERSION}")
    checksum = meta.pop("checksum", None)
    if checksum != _checksum(_canonical(meta)):
        source.fail("meta.json does not match its checksum; it was changed or damaged")
    if not _is_sound(meta):
        source.fail("meta.json does not describe a graph")
    return meta


def _is_sound(meta: dict[str, Any]) -> bool:
    """Whether all that will be used is there and of the right type."""

    def count(value: Any) -> bool:
        return type(value) is int and 0 <= value < 1 << 62

    arrays = meta.get("arrays")
    if not isinstance(arrays, dict) or not {"indptr", "indices"} <= arrays.keys() <= _DTYPES.keys():
        return False
    if ("label_text" in arrays) != ("label_offsets" in arrays):
        return False
    for name, entry in arrays.items():
        if not isinstance(entry, dict) or not count(entry.get("length")):
            return False
        if not isinstance(entry.get("file"), str) or Path(entry["file"]).name != entry["file"]:
            return False
        if entry.get("dtype") not in _DTYPES[name] or not isinstance(entry.get("sha256"), str):
            return False
    return (
        count(meta.get("num_vertices"))
        and count(meta.get("num_edges"))
        and type(meta.get("directed")) is bool
        and type(meta.get("first_label")) is int
        and abs(meta["first_label"]) < 1 << 62
    )


def _open_array(source: Source, meta: dict[str, Any], name: str) -> np.ndarray:
    entry = meta["arrays"][name]
    dtype, length = np.dtype(entry["dtype"]), entry["length"]
    file = source.path / entry["file"]
    try:
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            if size != length * dtype.itemsize:
                source.fail(
                    f"{file.name} has {size} bytes; expected {length * dtype.itemsize} for "
                    f"{length} values of {dtype}"
                )
            if length == 0:
                return np.empty(0, dtype)
            # Copy-on-write, so that kernels get an ordinary array; nobody writes to it.
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
    except FileNotFoundError:
        source.fail(f"{file.name} is missing")
    except OSError as error:
        source.fail(f"{file.name} cannot be read: {error.strerror}")
    return np.frombuffer(mapped, dtype.newbyteorder("<")).view(dtype)


def _check_shapes(source: Source, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    n, m = meta["num_vertices"], meta["num_edges"]
    expected = {"indptr": n + 1, "indices": m, "weights": m, "labels": n, "label_offsets": n + 1}
    for name, array in arrays.items():
        if len(array) != expected.get(name, len(array)):
            source.fail(f"{name} has {len(array)} values; expected {expected[name]}")
    if arrays["indptr"][0] != 0 or arrays["indptr"][-1] != m:
        source.fail(f"the row starts do not run from 0 to {m}; the array was changed or damaged")


def _verify_checksums(source: Source, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    with progress.task(f"verifying {source.path.name}"):
        for done, (name, array) in enumerate(arrays.items()):
            progress.report(done, len(arrays))
            if _checksum(array) != meta["arrays"][name]["sha256"]:
                file = meta["arrays"][name]["file"]
                source.fail(f"{file} does not match its checksum; it was changed or damaged")


def _verify_contents(source: Source, graph: Graph) -> None:
    """A forger can compute checksums; kernels rely on what the arrays say."""
    try:
        check(graph)
        Labels.of(graph._labels.array())
    except GraphError as error:
        source.fail(f"is no sound graph: {str(error).rstrip('.')}")


def _labels(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Labels:
    n = meta["num_vertices"]
    if "label_text" in arrays:
        return _TextLabels(n, arrays["label_text"], arrays["label_offsets"])
    return Labels(n, start=meta["first_label"], values=arrays.get("labels"))


class _TextLabels(Labels):
    """Names kept as UTF-8 on disk and decoded when first asked for."""

    def __init__(self, size: int, text: np.ndarray, offsets: np.ndarray):
        self._text, self._offsets = text, offsets
        super().__init__(size)
        del self.values

    @cached_property
    def values(self) -> np.ndarray:  # type: ignore[override]
        text = self._text.tobytes()
        out = np.empty(self.size, dtype=object)
        starts = self._offsets.tolist()
        for i in range(self.size):
            out[i] = text[starts[i] : starts[i + 1]].decode("utf-8", "replace")
        return out

    @property
    def is_range(self) -> bool:
        return False

    @property
    def kind(self) -> str:
        return "objects"


def write(graph: Graph, path: Path) -> None:
    """Write the folder; if it is there already it changes from the old graph to the new at once."""
    if path.suffix.lower() in COMPRESSIONS:
        raise GraphError(f"{path}: an .evg folder is mapped into memory, so it is not compressed.")
    if path.exists() and not (path.is_dir() and _is_ours(path)):
        raise GraphError(f"{path} exists and is not an .evg folder; choose another name.")
    fresh = not path.exists()
    folder = temporary_beside(path) if fresh else path
    try:
        folder.mkdir(exist_ok=not fresh)
        with progress.task(f"writing {path.name}"):
            meta = _write_arrays(graph, folder)
        with replacing(folder / "meta.json") as file:
            file.write(json.dumps(meta, indent=1).encode())
        if fresh:
            os.rename(folder, path)
        else:
            _remove_others(folder, meta)
    except BaseException as error:
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise GraphError(f"{path} cannot be written: {error.strerror or error}.") from None
        if isinstance(error, GraphError) and "cannot be written" in str(error):
            reason = str(error).partition("cannot be written: ")[2]
            raise GraphError(f"{path} cannot be written: {reason}") from None
        raise


def _is_ours(path: Path) -> bool:
    try:
        return json.loads((path / "meta.json").read_bytes())["kind"] == _KIND
    except (OSError, ValueError, KeyError, TypeError):
        return not any(path.iterdir())


def _write_arrays(graph: Graph, folder: Path) -> dict[str, Any]:
    labels = graph._labels
    arrays = {"indptr": graph._indptr, "indices": graph._indices}
    if graph._weights is not None:
        arrays["weights"] = graph._weights
    if labels.kind == "integers":
        arrays["labels"] = labels.array()
    elif labels.kind == "objects":
        encoded = [label.encode() for label in text_labels(labels.array())]
        arrays["label_text"] = np.frombuffer(b"".join(encoded), np.uint8)
        arrays["label_offsets"] = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    meta: dict[str, Any] = {
        "kind": _KIND,
        "version": VERSION,
        "num_vertices": graph.num_vertices,
        "num_edges": graph.num_edges,
        "directed": graph.directed,
        "first_label": labels.start,
        "arrays": {},
    }
    for done, (name, array) in enumerate(arrays.items()):
        progress.report(done, len(arrays))
        meta["arrays"][name] = _write_array(folder, name, array)
    return {**meta, "checksum": _checksum(_canonical(meta))}


def _write_array(folder: Path, name: str, array: np.ndarray) -> dict[str, Any]:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    checksum = _checksum(little)
    file = f"{name}.{checksum[:16]}.bin"
    # Written even if it is there already: what is there may be damaged.
    with replacing(folder / file) as opened:
        opened.write(_raw(little))
    return {"file": file, "dtype": array.dtype.name, "length": len(array), "sha256": checksum}


def _remove_others(folder: Path, meta: dict[str, Any]) -> None:
    """Delete the arrays of the graph that was here; graphs that have them open keep them."""
    used = {entry["file"] for entry in meta["arrays"].values()} | {"meta.json"}
    for file in folder.glob("*.bin"):
        if file.name not in used:
            with contextlib.suppress(OSError):
                file.unlink()


def _canonical(meta: dict[str, Any]) -> bytes:
    return json.dumps(meta, sort_keys=True, separators=(",", ":")).encode()


def _checksum(content: bytes | np.ndarray) -> str:
    raw = _raw(content) if isinstance(content, np.ndarray) else content
    return hashlib.sha256(raw).hexdigest()


def _raw(array: np.ndarray) -> Any:
    """The bytes of an array without a copy."""
    return array.view(np.uint8)
