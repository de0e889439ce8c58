"""Damaged files by number, and the process that loads them.

``python tests/fuzz.py FOLDER START STOP`` makes the damaged files of these numbers one by one, loads
each and uses what loads. The corpus is made by `write_corpus`, plus the files kept in
``tests/corpus``. Before each file its number goes to ``FOLDER/number``, so that whoever started
the process knows where it ended; what is wrong goes to standard output, a line each.
"""

import contextlib
import gzip
import json
import random
import resource
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import zstandard

import evener as ev
from evener.graph.files import evg

KEPT = Path(__file__).parent / "corpus"
MOST_MEMORY = 12 << 30  # address space of the process: the libraries alone reserve some of it
HOSTILE = [
    b"-1", b"18446744073709551616", b"99999999999999999999999999", b"nan", b"1e999", b"abc", b"",
    b"0x10", b"1.5", b"\x00\xff", b"\xef\xbb\xbf", b"9223372036854775807", b"4294967296", b"\r",
    b"\n\n", b"%", b"#", b'"', b",", b"2147483648", b"- 1", b"+", b"1e", b"infinity", b"\\N",
    b"\xed\xa0\x80", b"9007199254740993", b"1000000000", b"\t", b";", b"NaN",
]  # fmt: skip
EXTREMES = (0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, 39, 40, 41, 120, 255)


def write_corpus(folder):
    """Write whole files of every format, one graph in a folder of its own."""
    rng = np.random.default_rng(7)
    src, dst = rng.integers(0, 40, 120), rng.integers(0, 40, 120)
    whole, real = rng.integers(1, 9, 120), rng.random(120)
    names = [f"v{i}" for i in range(38)] + ["Zürich", 'with "quotes"']

    def graph(weight=None, directed=True, labels=None):
        return ev.Graph.from_edges(
            src, dst, weight, num_vertices=40, directed=directed, duplicates="first", labels=labels
        )

    made = {
        "plain.el": graph(), "whole.wel": graph(whole), "real.csv": graph(real),
        "whole.tsv": graph(whole), "names.csv": graph(real, labels=names),
        "real.mtx": graph(real), "symmetric.mtx": graph(whole, False), "whole.gr": graph(whole),
        "whole.graph": graph(whole, False), "plain.adjlist": graph(), "whole.e": graph(whole, False),
        "real.parquet": graph(real), "names.parquet": graph(whole, labels=names),
        "names.graphml": graph(real, labels=[*names[:38], "a", "b"]), "whole.gexf": graph(whole),
        "names.gml": graph(whole, False, [*names[:38], "a", "b"]),
        "directed.evg": graph(whole), "undirected.evg": graph(real, False),
        "numbers.evg": graph(labels=list(range(100, 20, -2))), "names.evg": graph(real, labels=names),
    }  # fmt: skip
    for name, one in made.items():
        (folder / name).mkdir()
        one.save(folder / name / name)
    rows = list(zip(src.tolist(), dst.tolist(), strict=True))
    texts = {
        "names.txt": "".join(f"v{u} v{v}\n" for u, v in rows),
        "wide.csv": "a,src,x,dst\n" + "".join(f"{u + v},{u},y,{v}\n" for u, v in rows),
        "text.txt": "".join(f"{u} {v} likes\n" for u, v in rows),
        "vertices.graph": "3 2 111 2\n1 2 3 2 5\n1 2 3 1 5 3 6\n1 2 3 2 6\n",
    }
    listed = "".join(f"{u} {v}\n" for u, v in rows).encode()
    packed = {
        "packed.el.gz": gzip.compress(listed, mtime=0),
        "packed.el.zst": zstandard.ZstdCompressor().compress(listed),
    }
    for name, content in (texts | packed).items():
        (folder / name).mkdir()
        raw = content if isinstance(content, bytes) else content.encode()
        (folder / name / name).write_bytes(raw)
    for kept in sorted(KEPT.iterdir()):
        if kept.suffix != ".md":
            (folder / f"kept-{kept.name}").mkdir()
            shutil.copy(kept, folder / f"kept-{kept.name}" / kept.name)


def mutate(content, rng):
    """One damage or several: bytes flipped, cut, doubled, tokens replaced, lines lost."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        kind = rng.randrange(8)
        at = rng.randrange(len(content) + 1)
        if kind == 0:
            content = content[:at]
        elif kind == 1 and content:
            at = rng.randrange(len(content))
            content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
        elif kind == 2:
            content = content[:at] + rng.choice(HOSTILE) + content[at:]
        elif kind == 3:
            content = content[:at] + content[at + rng.randrange(1, 20) :]
        elif kind == 4:
            content = content[:at] + rng.randbytes(rng.randrange(1, 50)) + content[at:]
        elif kind == 5:
            lines = content.split(b"\n")
            line = rng.randrange(len(lines))
            separator = rng.choice((b" ", b",", b"\t"))
            tokens = lines[line].split(separator)
            tokens[rng.randrange(len(tokens))] = rng.choice(HOSTILE)
            lines[line] = separator.join(tokens)
            content = b"\n".join(lines)
        elif kind == 6:
            lines = content.split(b"\n")
            line = rng.randrange(len(lines))
            content = b"\n".join(
                lines[:line] + lines[line : line + 1] * rng.choice((0, 2)) + lines[line + 1 :]
            )
        else:
            content = content[at:] + content[:at]
    return content


def damaged(corpus, folder, number):
    """Make the damaged copy of this number; returns its path."""
    rng = random.Random(number)
    originals = sorted(corpus.iterdir())
    if rng.random() < 0.25:
        originals = [one for one in originals if one.suffix == ".evg"]
    original = rng.choice(originals)
    for file in sorted(original.rglob("*")):
        copy = folder / file.relative_to(original)
        copy.mkdir() if file.is_dir() else shutil.copy(file, copy)
    (path, *others) = sorted(folder.iterdir())
    if path.suffix == ".evg":
        damage_folder(path, rng)
    else:
        chosen = rng.choice([path, *others])
        chosen.write_bytes(mutate(chosen.read_bytes(), rng))
    return path


def damage_folder(path, rng):
    """Damage the metadata or an array of an .evg folder, with or without right checksums."""
    meta = json.loads((path / "meta.json").read_bytes())
    name = rng.choice(["meta", *meta["arrays"]])
    if name == "meta":
        if rng.random() < 0.5:
            (path / "meta.json").write_bytes(mutate((path / "meta.json").read_bytes(), rng))
            return
        part = rng.choice([meta, meta["arrays"], *meta["arrays"].values()])
        part[rng.choice(sorted(part))] = rng.choice(
            [None, -1, 0, 1 << 70, "x", [], {}, True, 1.5, "../x", "\ud800", "int64", "float32", 41]
        )
    else:
        entry = meta["arrays"][name]
        file = path / entry["file"]
        if rng.random() < 0.2:  # another length
            file.write_bytes(mutate(file.read_bytes(), rng))
        else:
            array = np.fromfile(file, entry["dtype"])
            for _ in range(rng.choice((1, 1, 2, 9))):
                with contextlib.suppress(OverflowError):
                    array[rng.randrange(len(array))] = rng.choice([*EXTREMES, rng.randrange(50)])
            array.tofile(file)
        if rng.random() < 0.2:
            return  # the checksum tells
        content = file.read_bytes()
        entry["sha256"] = evg.checksum_of(content)
        if rng.random() < 0.5:
            entry["length"] = len(content) // np.dtype(entry["dtype"]).itemsize
    meta.pop("checksum", None)
    meta["checksum"] = evg.checksum_of(evg._canonical(meta))
    (path / "meta.json").write_text(json.dumps(meta))


def faults(path, number):
    """What is wrong with how a file is taken; None if it is refused in a sentence or sound."""
    try:
        graph = ev.load(path, directed=None if number % 3 else bool(number % 2))
    except ev.EvenerError as error:
        message = str(error)
        said = path.name.split(".")[0] in message or "memory" in message
        return None if said and message.endswith(".") and "\n" not in message else message
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    try:
        return unsound(graph) or used(graph, number)
    except Exception as error:
        return f"in use: {type(error).__name__}: {error}"


def unsound(graph):
    """The rule of a sound graph that this one breaks."""
    n, indptr, indices = graph.num_vertices, graph.indptr, graph.indices.astype(np.int64)
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        return "row starts"
    if len(indices) and not 0 <= indices.min() <= indices.max() < n:
        return "neighbours out of range"
    sources = np.repeat(np.arange(n), np.diff(indptr))
    keys = sources * n + indices
    if (np.diff(keys) < 0).any():
        return "neighbours out of order"
    if graph.weights is not None and np.isnan(graph.weights).any():
        return "NaN"
    weights = np.zeros(len(keys)) if graph.weights is None else graph.weights
    if not graph.directed:
        forth, back = (np.lexsort((weights, one)) for one in (keys, indices * n + sources))
        same = (keys[forth] == (indices * n + sources)[back]) & (weights[forth] == weights[back])
        if not same.all():
            return "one way"
    labels = graph.labels.tolist()
    return "labels" if len(set(labels)) != n or len(labels) != n else None


def used(graph, number):
    """Run searches, which follow every arc, and compare with a plain one."""
    if graph.num_vertices == 0 or graph.num_vertices > 10**6:
        return None
    depth = ev.bfs(graph, graph.labels[number % graph.num_vertices], device="cpu:1").depth
    src = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    near = depth[src] >= 0
    if (depth[graph.indices[near]] > depth[src[near]] + 1).any() or (
        depth[graph.indices[near]] < 0
    ).any():
        return "depths"
    if number % 8 == 0:
        with contextlib.suppress(ev.GraphError):  # negative weights
            ev.sssp(graph, graph.labels[0], device="cpu:1")
    return None


def main(folder, start, stop):
    folder = Path(folder)
    corpus = folder / "corpus"
    if not corpus.exists():
        corpus.mkdir()
        write_corpus(corpus)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    warnings.simplefilter("ignore")
    for number in range(start, stop):
        (folder / "number").write_text(str(number))
        place = folder / "damaged"
        place.mkdir()
        path = damaged(corpus, place, number)
        fault = faults(path, number)
        if fault is not None:
            print(json.dumps([number, path.name, fault]), flush=True)
        shutil.rmtree(place)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
