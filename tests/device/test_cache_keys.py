"""Keys of compiled code: what changes them, what does not, and what they cannot tell."""

import builtins
import os
import shutil
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import numba
import pytest

import evener as ev
from evener.algorithms.bfs import BFS
from evener.device import (
    cache,
)
from evener.programs.program import program_cache
from processes import python

SOURCE = """
    import math
    import numpy as np
    from evener.device import compiled, atomic
    LIMIT = 5
    PAIR = (1, 2)
    TABLE = np.arange(3)
    UNREAD = 1
    def helper(x):
        return x + 1
    @compiled
    def compiled_helper(x):
        return helper(x) + 1
    def make(captured):
        def function(x, y=7):
            inner = [z * 2 for z in (x, y)]
            return compiled_helper(x) + LIMIT + PAIR[0] + TABLE[0] + captured + math.pi + 0.5
        return function
    function = make(11)
"""


def fingerprint_of(source):
    namespace = {"__name__": "typed_by_a_user"}
    exec(textwrap.dedent(source), namespace)
    return cache.fingerprint(namespace["function"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 5", "LIMIT = 6"),
        ("LIMIT = 5", "LIMIT = 5.0"),
        ("PAIR = (1, 2)", "PAIR = (1, 3)"),
        ("np.arange(3)", "np.arange(3) * 2"),
        ("np.arange(3)", "np.arange(3.0)"),
        ("return x + 1", "return x + 2"),
        ("helper(x) + 1", "helper(x) - 1"),
        ("@compiled\n", "@compiled(fastmath=True)\n"),
        ("make(11)", "make(12)"),
        ("y=7", "y=8"),
        ("z * 2", "z * 3"),
        ("0.5", "0.25"),
        ("math.pi", "math.e"),
    ],
)
def test_what_changes_the_code_changes_the_fingerprint(old, new):
    assert old in SOURCE
    assert fingerprint_of(SOURCE.replace(old, new)) != fingerprint_of(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [("UNREAD = 1", "UNREAD = 2"), ("import math", "\n\n    import math"), ("SAME", "SAME")],
)
def test_what_does_not_change_the_code_keeps_the_fingerprint(old, new):
    assert fingerprint_of(SOURCE.replace(old, new)) == fingerprint_of(SOURCE)


def test_fingerprints_do_not_depend_on_the_order_of_sets():
    program = (
        "from evener.device import cache, compiled\n"
        "@compiled(fastmath={'nsz', 'reassoc', 'contract', 'arcp'})\n"
        "def helper(x):\n    return x in {'one', 'two', 'three', 'four'}\n"
        "def function(x):\n    return helper(x)\n"
        "print(cache.fingerprint(function))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in range(4)
    }  # fmt: skip
    assert len(found) == 1


def test_fingerprints_of_functions_that_call_each_other():
    source = """
        def ping(x):
            return pong(x - 1) if x else 0
        def pong(x):
            return ping(x - 1) if x else 1
        function = ping
    """
    assert fingerprint_of(source) != fingerprint_of(source.replace("else 1", "else 2"))


CHOICE = """
    import enum
    from typing import NamedTuple
    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 2
    class Point(NamedTuple):
        x: int = 0
        y: int = 0
    def one(x):
        return x + 1
    def two(x):
        return x + 2
    chosen = one
    def with_chosen(x):
        return chosen(x)
    def function(x, *rest, z=5):
        return (one(x) * 1000 + two(x) * 23456 + with_chosen(x) + TABLE[0]
            + Level.HIGH + Point(x, 3).x + ("a", "bc")[0])
    TABLE = (1, 23)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1000 + two(x) * 23456", "100023 + two(x) * 456"),
        ("(1, 23)", "(12, 3)"),
        ("(1, 23)", "((1, 23),)"),
        ("(1, 23)", "[1, 23]"),
        ('("a", "bc")', '("ab", "c")'),
        ("chosen = one", "chosen = two"),
        ("HIGH = 2", "HIGH = 3"),
        ("x: int = 0\n        y: int", "y: int = 0\n        x: int"),
        ("y: int = 0", "y: int = 1"),
        ("x, *rest, z", "x, rest=(), z"),
        ("z=5", "z=6"),
    ],
)
def test_what_looks_alike_changes_the_fingerprint(old, new):
    assert old in CHOICE
    assert fingerprint_of(CHOICE.replace(old, new)) != fingerprint_of(CHOICE)


def test_fingerprints_tell_types_apart():
    values = [
        "1", "1.0", "True", "None", "'1'", "b'1'", "1j", "0.0", "-0.0", "(1,)", "[1]", "{1}", "{1: 1}",
        "np.int64(1)", "np.int32(1)", "np.float64(1)", "np.array(1)", "np.array([1])", "np.int64",
        "np.zeros(2, 'i4,f4')", "np.zeros(2, 'f4,i4')", "len", "abs", "np.add", "np.sum", "np.prod",
        "enum.IntEnum('Level', 'LOW').LOW", "enum.Enum('Level', 'LOW').LOW",
    ]  # fmt: skip
    source = "import enum\nimport numpy as np\nVALUE = {}\ndef function():\n    return VALUE"
    for text in (source, source.replace("VALUE = {}\n", "").replace("return VALUE", "return {}")):
        found = [fingerprint_of(text.format(value)) for value in values[:13]]
        assert len(set(found)) == len(found)
    found = [fingerprint_of(source.format(value)) for value in values]
    assert len(set(found)) == len(found)
    assert found == [fingerprint_of(source.format(value)) for value in values]


def test_kernels_of_the_library_have_keys_that_last():
    """Or every process compiled them again: a clock that kernels read was once unknown."""
    for device in "cpu", "cpu+cpu":
        ev.bfs(ev.generate.path(4), 0, device=device)
    workers = [worker.python for worker in program_cache(BFS, "workers").values()]
    unkept = [one for one in workers if not cache.is_lasting(cache.fingerprint(one))]
    assert len(workers) >= 2
    assert not unkept


def test_fingerprints_see_into_modules_of_modules():
    outer, inner = types.ModuleType("outer"), types.ModuleType("outer.inner")
    outer.inner, inner.outer, inner.LIMIT = inner, outer, 1

    def function():
        return outer.inner.LIMIT

    found = cache.fingerprint(function)
    inner.UNREAD = 2
    assert cache.fingerprint(function) == found
    inner.LIMIT = 2
    assert cache.fingerprint(function) != found


def test_fingerprints_see_the_text_of_functions_that_numba_compiles():
    source = """
        import numba
        @numba.njit
        def helper(x):
            return x + 1
        def function(x):
            return helper(x)
    """
    assert fingerprint_of(source) == fingerprint_of(source)
    assert fingerprint_of(source) != fingerprint_of(source.replace("x + 1", "x + 2"))
    assert fingerprint_of(source) != fingerprint_of(source.replace("njit", "njit(fastmath=True)"))


DECLARED = """
    import builtins
    import numba
    def text(x):
        z = x * 1.5
        return z
    def row(x, r):
        r[0] = x[0]
    VALUE
    def function(x):
        return helper(x)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("helper = numba.njit('i4(i4)')(text)", "helper = numba.njit('f8(f8)')(text)"),
        ("helper = numba.njit('i4(i4)')(text)", "helper = numba.njit('f8(i4)')(text)"),
        ("helper = numba.njit('i4(i4)')(text)", "helper = numba.njit(text)"),
        (
            "helper = numba.njit(locals={'z': numba.i4})(text)",
            "helper = numba.njit(locals={'z': numba.f8})(text)",
        ),
        (
            "helper = numba.vectorize(['f8(f8)'])(text)",
            "helper = numba.vectorize(['f4(f4)', 'f8(f8)'])(text)",
        ),
        ("helper = numba.vectorize(identity=0)(text)", "helper = numba.vectorize(text)"),
        (
            "helper = numba.guvectorize('(n)->(n)')(row)",
            "helper = numba.guvectorize('(n)->()')(row)",
        ),
        ("builtins.helper = numba.njit(text)", "builtins.helper = numba.njit(row)"),
    ],
)
def test_what_helpers_are_declared_for_changes_the_fingerprint(old, new):
    """Their texts are the same: one for whole numbers rounds what another does not."""
    try:
        keys = [fingerprint_of(DECLARED.replace("VALUE", value)) for value in (old, new)]
    finally:
        vars(builtins).pop("helper", None)
    assert keys[0] != keys[1]
    assert all(map(cache.is_lasting, keys))


def test_what_helpers_met_does_not_change_the_fingerprint():
    made = numba.njit(lambda x: x + 1), numba.vectorize(lambda x: x + 1)

    def function(x):
        return made[0](x) + made[1](x)

    before = cache.fingerprint(function)
    assert (made[0](1), made[1](1)) == (2, 2)
    assert cache.fingerprint(function) == before


def test_what_tells_numba_how_to_compile_is_in_the_key(tmp_path, monkeypatch):
    folder = Path(cache.__file__).parent
    ours = {path.name for path in folder.glob("c*.py") if "import numba\n" in path.read_text()}
    ours |= {f"cpu/{path.name}" for path in folder.glob("cpu/*.py")} | {"typing_cache.py"}
    assert ours - {"cache.py", "cpu/__init__.py"} == set(cache._COMPILER)
    (tmp_path / "cpu").mkdir()
    for name in cache._COMPILER:
        shutil.copy(folder / name, tmp_path / name)
    before = cache._compiler()
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "cache.py"))
    assert cache._compiler.__wrapped__() == before
    for name in cache._COMPILER:
        with open(tmp_path / name, "a") as file:
            file.write("#")
        assert cache._compiler.__wrapped__() != before
        before = cache._compiler.__wrapped__()


EXTENDED = """
import math
from math import comb as alias
import numba.extending as more
from numba.core import types
from evener.device import compiled
from evener.device.keys import fingerprint

def mine(x):
    return x

@more.overload(math.comb)
def of_library(n, k):
    return lambda n, k: 7.0 * FACTOR

@more.overload(ascii)
def of_builtin(x):
    return lambda x: 7.0 * FACTOR

@more.overload_method(types.Float, "doubled")
def of_method(x):
    return lambda x: 7.0 * FACTOR

@more.overload_attribute(types.Float, "halved")
def of_attribute(x):
    return lambda x: 7.0 * FACTOR

@more.type_callable(mine)
def typed(context):
    return lambda x: types.float64
"""
EXTENDED_CALLS = [
    "math.comb(5, 2)", "alias(5, 2)", "ascii(x)", "x.doubled()", "x.halved", "mine(x)", "math.gcd(4, x)",
]  # fmt: skip


def test_extensions_of_numba_are_in_the_keys():
    """The text of the functions stays as it is; what compiled code makes of it does not."""
    text = EXTENDED + "".join(f"print(fingerprint(lambda x: {c}))\n" for c in EXTENDED_CALLS)
    first, changed = (python(text.replace("FACTOR", factor)).split() for factor in "23")
    *keyed, lowered, plain = range(len(EXTENDED_CALLS))
    assert all(first[i] != changed[i] for i in keyed)
    assert first[plain] == changed[plain]
    assert not any(first[i].startswith("unkeyed") for i in (*keyed, plain))
    assert first[lowered].startswith("unkeyed")  # no function says it all: not kept on disk


@pytest.mark.slow
def test_a_changed_extension_of_numba_is_compiled_again(tmp_path):
    program, folder = tmp_path / "extended.py", str(tmp_path / "cache")
    for factor in "23":
        text = EXTENDED.replace("FACTOR", factor)
        text += "@compiled\ndef function(x):\n    return math.comb(5, 2) + x.doubled()\n"
        program.write_text(text + "if __name__ == '__main__':\n    print(function(2.0))\n")
        command = f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')"
        assert python(command, EVENER_CACHE=folder) == str(14.0 * int(factor))


def test_extensions_of_jitclass_leave_keys_that_last():
    code = """
        import numba.experimental
        from evener.device.overloads import known_extensions
        from evener.device.keys import fingerprint
        print(len(known_extensions()), fingerprint(lambda x: abs(x) + len("a")))
    """
    known, key = python(code).split()
    assert known == "0"  # they are Numba's own, and a key that has them takes 100 ms
    assert not key.startswith("unkeyed")
