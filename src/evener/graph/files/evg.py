"""The native format: a folder of raw arrays that are memory-mapped when opened.

``meta.json`` lists the arrays with their dtypes, lengths and SHA-256 checksums, and contains a
checksum of itself. An array's file is named after its content, so saving over a graph writes new
files beside the old ones and then replaces ``meta.json``; that rename switches to the new graph.
Opening reads only ``meta.json`` and the sizes of the files. The arrays are checked (`evg_check`)
unless they are known to be sound (`evg_checked`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evener import progress
from evener.device.mapped_files import map_file
from evener.device.once import once
from evener.errors import GraphError
from evener.graph.csr import Graph
from evener.graph.files.atomic_file import replacing, temporary_beside
from evener.graph.files.columns import text_labels
from evener.graph.files.evg_check import check_folder, checksum_of, raw_bytes
from evener.graph.files.evg_checked import fingerprint, record_check, was_checked
from evener.graph.files.finish import apply_request
from evener.graph.files.request import Request
from evener.graph.files.source import COMPRESSIONS, Source, open_regular
from evener.graph.labels import Labels

VERSION = 1
_KIND = "evener graph"
_MAX_META_BYTES = 1 << 16
_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")  # a plain name within the folder
_DTYPES = {
    "indptr": ("int32", "int64"),
    "indices": ("int32", "int64"),
    "weights": ("int32", "int64", "float32", "float64"),
    "labels": ("int64",),
    "label_offsets": ("int64",),
    "label_text": ("uint8",),
}


class _Opened(NamedTuple):
    """The arrays of a folder, and the metadata of their files."""

    arrays: dict[str, np.ndarray]
    files: list[os.stat_result]


def read(
    path: Path,
    request: Request,
    max_bytes: int | None = None,
    *,
    trusted: bool = False,
    verify: bool = False,
) -> Graph:
    """Open a graph; check it if it was never checked or if ``verify``, but not if ``trusted``."""
    source = Source(path, max_bytes)
    if not path.is_dir():
        source.fail("is not a folder; expected an .evg folder")
    folder = path.stat()
    meta, checksum, meta_stat = _read_meta(source)
    opened = _open_arrays(source, meta, meta_stat)
    arrays = opened.arrays
    _check_shapes(source, meta, arrays)
    graph = Graph(
        arrays["indptr"], arrays["indices"], arrays.get("weights"),
        directed=meta["directed"], labels=_labels(meta, arrays),
    )  # fmt: skip
    if not trusted:
        state = fingerprint(checksum, opened.files)
        if verify or not was_checked(folder, state):
            with progress.task(f"checking {path.name}"):
                check_folder(source, meta, arrays, graph)
            if _unchanged(source, meta, opened.files):
                record_check(folder, state, opened.files)
    return apply_request(graph, request)


def _unchanged(source: Source, meta: dict[str, Any], before: list[os.stat_result]) -> bool:
    """Whether the files are still those that were opened, unmodified."""
    names = ["meta.json", *(entry["file"] for entry in meta["arrays"].values())]
    try:
        now = [(source.path / name).stat() for name in names]
    except OSError:
        return False
    return fingerprint("", now) == fingerprint("", before)


def _read_meta(source: Source) -> tuple[dict[str, Any], str, os.stat_result]:
    """The content of ``meta.json``, its checksum, and the metadata of the file."""
    try:
        descriptor, meta_stat = open_regular(source, f"{source.name}/meta.json")
        try:
            content = os.read(descriptor, _MAX_META_BYTES + 1)
        finally:
            os.close(descriptor)
        if len(content) > _MAX_META_BYTES:
            source.fail("meta.json is longer than 64 KiB")
        meta = json.loads(content)
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
    if checksum != checksum_of(_canonical(meta)):
        source.fail("meta.json does not match its checksum; it was changed or damaged")
    if not _is_sound(meta):
        source.fail("meta.json does not describe a graph")
    return meta, checksum, meta_stat


def _is_sound(meta: dict[str, Any]) -> bool:
    """Whether all required entries are present and of the right type."""

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
        if not isinstance(entry.get("file"), str) or not _FILE.fullmatch(entry["file"]):
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


def _open_arrays(source: Source, meta: dict[str, Any], meta_stat: os.stat_result) -> _Opened:
    opened = _Opened({}, [meta_stat])
    for name, entry in meta["arrays"].items():
        try:
            descriptor, file_stat = open_regular(source, f"{source.name}/{entry['file']}")
            try:
                opened.files.append(file_stat)
                opened.arrays[name] = _array(source, entry, descriptor, file_stat)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            source.fail(f"{entry['file']} is missing")
        except OSError as error:
            source.fail(f"{entry['file']} cannot be read: {error.strerror}")
    return opened


def _array(
    source: Source, entry: dict[str, Any], descriptor: int, file_stat: os.stat_result
) -> np.ndarray:
    dtype, length = np.dtype(entry["dtype"]), entry["length"]
    size = file_stat.st_size
    if size != length * dtype.itemsize:
        source.fail(
            f"{entry['file']} has {size} bytes; expected {length * dtype.itemsize} for "
            f"{length} values of {dtype}"
        )
    if length == 0:
        return np.empty(0, dtype)
    if _is_sparse(descriptor, file_stat):
        source.require_allowed(size, f"has a sparse file {entry['file']} of {{}}")
    mapped = map_file(descriptor, f"{source.name}: {entry['file']}")
    return mapped.view(dtype.newbyteorder("<")).view(dtype)


def _is_sparse(descriptor: int, file_stat: os.stat_result) -> bool:
    """Whether a file is almost all holes: it may claim more than anyone could read."""
    if getattr(file_stat, "st_blocks", file_stat.st_size) * 512 * 100 > file_stat.st_size:
        return False
    try:
        return os.lseek(descriptor, 0, os.SEEK_HOLE) < file_stat.st_size
    except (OSError, AttributeError):
        return False


def _check_shapes(source: Source, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    n, m = meta["num_vertices"], meta["num_edges"]
    expected = {"indptr": n + 1, "indices": m, "weights": m, "labels": n, "label_offsets": n + 1}
    for name, array in arrays.items():
        if len(array) != expected.get(name, len(array)):
            source.fail(f"{name} has {len(array)} values; expected {expected[name]}")
    if arrays["indptr"][0] != 0 or arrays["indptr"][-1] != m:
        source.fail(f"the row starts do not run from 0 to {m}; the array was changed or damaged")


def _labels(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Labels:
    n = meta["num_vertices"]
    if "label_text" in arrays:
        return _TextLabels(n, arrays["label_text"], arrays["label_offsets"])
    return Labels(n, start=meta["first_label"], values=arrays.get("labels"))


class _TextLabels(Labels):
    """Names that are UTF-8 on disk and decoded on first use."""

    def __init__(self, size: int, text: np.ndarray, offsets: np.ndarray):
        self._text, self._offsets = text, offsets
        super().__init__(size)
        del self.values

    @once
    def values(self) -> np.ndarray:
        text = self._text.tobytes()
        out = np.empty(self.size, dtype=object)
        for i, (start, stop) in enumerate(pairwise(self._offsets.tolist())):
            out[i] = text[start:stop].decode("utf-8", "replace")
        return out

    @property
    def is_range(self) -> bool:
        return False

    @property
    def kind(self) -> str:
        return "objects"


def write(graph: Graph, path: Path) -> None:
    """Write the folder; an existing folder switches from the old to the new graph atomically."""
    if path.suffix.lower() in COMPRESSIONS:
        raise GraphError(f"{path}: an .evg folder is memory-mapped and cannot be compressed.")
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
    return {**meta, "checksum": checksum_of(_canonical(meta))}


def _write_array(folder: Path, name: str, array: np.ndarray) -> dict[str, Any]:
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    checksum = checksum_of(little)
    file = f"{name}.{checksum[:16]}.bin"
    # Written even if it exists: the existing file may be damaged.
    with replacing(folder / file) as opened:
        opened.write(raw_bytes(little))
    return {"file": file, "dtype": array.dtype.name, "length": len(array), "sha256": checksum}


def _remove_others(folder: Path, meta: dict[str, Any]) -> None:
    """Delete the arrays of the previous graph; graphs that have them open keep them."""
    used = {entry["file"] for entry in meta["arrays"].values()} | {"meta.json"}
    for file in folder.glob("*.bin"):
        if file.name not in used:
            with contextlib.suppress(OSError):
                file.unlink()


def _canonical(meta: dict[str, Any]) -> bytes:
    return json.dumps(meta, sort_keys=True, separators=(",", ":")).encode()
