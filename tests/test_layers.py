"""The layers of the package: imports point down, heavy libraries wait, devices stay in `device/`.

The rules are those of docs/architecture.md; the last tests show that the checks can fail.
"""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import evener

PACKAGE = Path(evener.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# A module may import from its own layer and from those before it.
LAYERS = [
    "device", "graph", "operators", "programs", "engine", "algorithms", "bench",
]  # fmt: skip
TOP = ["cli", "__init__", "__main__"]
ROOT = [
    "errors",
    "progress",
    "startup_signals",
    "tracebacks",
    "versions",
]  # these may be imported from everywhere
RANK = {name: rank for rank, name in enumerate(LAYERS)} | dict.fromkeys(TOP, len(LAYERS))

# The rooms of `engine`, and its modules beside them, ranked likewise. What is imported when it is
# first needed may point up: planning runs programs, and runs may ask for a plan.
ENGINE = [
    "deferred_arrays", "bucket_width", "preallocation", "job", "devices", "results", "partition", "codegen",
    "measurement_keys", "memory", "reference", "repeatable", "request", "targets", "lower", "checking",
    "sources_at_once", "run", "planning",
]  # fmt: skip

# What Numba is told: imported only when something is compiled.
LATE = {
    *(f"evener.device.cpu.{name}" for name in ("atomic", "inner", "types")),
    *(f"evener.device.cuda.{name}" for name in ("arrays", "intrinsics", "serial", "ufuncs")),
}

DEVICE_ONLY = {"numba", "cupy", "cupyx", "cuda", "llvmlite"}
HEAVY = {
    *DEVICE_ONLY, "numba_cuda", "scipy", "polars", "networkx", "pandas", "pyarrow", "rich",
    "matplotlib", "pymetis", "ray", "networkit", "igraph", "graphblas", "rustworkx",
}  # fmt: skip


def module_of(path: Path) -> str:
    """The name that a file is imported by."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


class Import(NamedTuple):
    """One imported module, and whether importing its file imports it."""

    module: str
    line: int
    at_once: bool


def imports(tree: ast.AST, *, at_once: bool = True) -> Iterator[Import]:
    """All imports of a module; those for type checkers only are not imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from imports(ast.Module([other], []), at_once=at_once)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, at_once)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            for alias in node.names:
                yield Import(f"{start}.{alias.name}", node.lineno, at_once)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant):
                    yield Import(str(argument.value), node.lineno, at_once)
        else:
            later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from imports(node, at_once=at_once and not later)


def layer_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def misdirected(layer: str, found: Import) -> str | None:
    """What is wrong with an import from a module of this layer, if anything is."""
    if found.module.startswith("."):
        return "is relative; write the whole name"
    package, *rest = found.module.split(".")
    if package != "evener":
        return None
    target = rest[0] if rest else "__init__"
    if target in ROOT or target == "__version__":
        return None
    if layer == "versions" and target == "device":  # it tells cores and memory
        return None
    if layer in ROOT:
        return "imports a layer from a module that every layer imports"
    if target not in RANK:  # a name that the package itself re-exports
        target = "__init__"
    if RANK[target] > RANK[layer]:
        return f"points up: {layer} is below {target}"
    return None


def forbidden_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names of device libraries, imported or used."""
    for found in imports(tree):
        if found.module.split(".")[0] in DEVICE_ONLY:
            yield found.module, found.line
    for node in ast.walk(tree):
        name = {ast.Name: "id", ast.Attribute: "attr"}.get(type(node))
        if name and getattr(node, name) in DEVICE_ONLY:
            yield getattr(node, name), node.lineno


def heavy_at_once(tree: ast.AST) -> list[Import]:
    return [
        found
        for found in imports(tree)
        if found.at_once and found.module.split(".")[0] in HEAVY
    ]  # fmt: skip


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def test_every_file_belongs_to_a_layer():
    assert [path for path in FILES if layer_of(path) not in {*RANK, *ROOT}] == []


def test_imports_point_down():
    wrong = [
        f"{path}:{found.line}: {found.module} {misdirected(layer_of(path), found)}"
        for path in FILES
        for found in imports(tree_of(path))
        if misdirected(layer_of(path), found)
    ]
    assert wrong == []


def test_imports_between_rooms_of_the_engine_point_down():
    wrong = []
    for path in FILES:
        first, room, *_ = (*path.relative_to(PACKAGE).with_suffix("").parts, "", "")
        if first != "engine" or room == "__init__":
            continue
        for found in imports(tree_of(path)):
            package, layer, other, *_ = (*found.module.split("."), "", "", "")
            is_ours = found.at_once and (package, layer) == ("evener", "engine")
            if is_ours and ENGINE.index(other) > ENGINE.index(room):
                wrong.append(f"{path}:{found.line}: {found.module}")
    assert wrong == []


def test_operators_of_one_device_know_no_other():
    others = {"cpu": ("gpu",), "gpu": ("cpu",), "shared": ("cpu", "gpu")}
    wrong = []
    for path in FILES:
        first, room, *_ = (*path.relative_to(PACKAGE).parts, "", "")
        if first == "operators":
            for found in imports(tree_of(path)):
                other = found.module.removeprefix("evener.operators.").partition(".")[0]
                if other in others.get(room, ()):
                    wrong.append(f"{path}:{found.line}: {found.module}")
    assert wrong == []


def test_devices_are_named_in_the_device_layer_only():
    named = {path: list(forbidden_names(tree_of(path))) for path in FILES}
    assert {p: names for p, names in named.items() if names and layer_of(p) != "device"} == {}


def test_heavy_imports_wait():
    heavy = {path: heavy_at_once(tree_of(path)) for path in FILES if module_of(path) not in LATE}
    assert {path: found for path, found in heavy.items() if found} == {}


def test_modules_that_import_numba_are_imported_late():
    for path in FILES:
        if module_of(path) in LATE:  # one of them may import another
            continue
        for found in imports(ast.parse(path.read_text())):
            if any(f"{found.module}.".startswith(f"{late}.") for late in LATE):
                assert not found.at_once, f"{path}:{found.line}"


def test_every_folder_is_a_package_with_a_docstring():
    folders = {path.parent for path in FILES}
    for folder in folders:
        text = (folder / "__init__.py").read_text()
        assert ast.get_docstring(ast.parse(text)), folder


def test_every_module_has_a_docstring():
    assert [path for path in FILES if not ast.get_docstring(tree_of(path))] == []


@pytest.mark.parametrize("module", ["evener", "evener.cli"])
def test_importing_loads_nothing_heavy(module):
    script = f"import sys, {module}; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "evener.graph.csr" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("name", ["atomic", "gas", "generate", "stages", "vertex"])
def test_modules_of_the_package_are_imported_by_their_short_names(name):
    lines = [
        f"import evener.{name}",  # the very first import, of nothing but this name
        f"from evener.{name} import __doc__, __name__ as long_name",
        "import evener as ev, importlib",
        f"assert importlib.import_module(long_name) is evener.{name} is ev.{name}",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


def test_the_package_shows_what_is_public_and_nothing_else():
    shown = {name for name in dir(evener) if not name.startswith("__")}
    assert shown == set(evener.__all__)
    bound = {name for name in vars(evener) if not name.startswith("_")}
    inside = {path.stem if path.suffix else path.name for path in PACKAGE.iterdir()}
    assert bound <= shown | inside  # no name of another library's, such as evener.sys
    with pytest.raises(AttributeError, match=r"did you mean 'connected_components'\?"):
        evener.components  # noqa: B018


# ---- the checks can fail --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "line"),
    [
        ("device", "from evener.graph.csr import Graph"),
        ("device", "import evener.graph"),
        ("device", "from evener import graph"),
        ("graph", "import evener"),
        ("graph", "from evener import Graph"),
        ("graph", "from evener.engine.run import run"),
        ("graph", "def f():\n    from evener.algorithms import bfs"),
        ("graph", "from .csr import Graph"),
        ("operators", "import evener.programs"),
        ("programs", "from evener.engine import run"),
        ("bench", "from evener.cli import main"),
        ("versions", "from evener.graph import csr"),
        ("errors", "import evener.graph"),
        ("graph", "import importlib\nimportlib.import_module('evener.engine')"),
    ],
)
def test_wrong_imports_are_found(layer, line):
    assert any(misdirected(layer, found) for found in imports(ast.parse(line)))


@pytest.mark.parametrize(
    ("layer", "line"),
    [
        ("graph", "from evener.device import parallel"),
        ("graph", "from evener.graph.labels import Labels"),
        ("graph", "from evener import progress"),
        ("device", "from evener.errors import EvenerError"),
        ("versions", "from evener import __version__"),
        ("cli", "from evener import bench"),
        ("cli", "import evener as ev"),
        ("engine", "import os, numpy"),
        ("device", "if TYPE_CHECKING:\n    from evener.graph.csr import Graph"),
    ],
)
def test_right_imports_pass(layer, line):
    assert not any(misdirected(layer, found) for found in imports(ast.parse(line)))


@pytest.mark.parametrize(
    "line", ["import numba", "from cupy import ndarray", "x = numba.njit", "from numba import cuda"]
)
def test_device_names_are_found(line):
    assert list(forbidden_names(ast.parse(line)))


def test_heavy_imports_are_found():
    assert heavy_at_once(ast.parse("import scipy.sparse"))
    assert heavy_at_once(ast.parse("try:\n    import polars\nexcept ImportError:\n    pass"))
    assert heavy_at_once(ast.parse("class A:\n    from rich import print"))
    assert not heavy_at_once(ast.parse("def f():\n    import scipy.sparse"))
    assert not heavy_at_once(ast.parse("if TYPE_CHECKING:\n    import networkx"))
