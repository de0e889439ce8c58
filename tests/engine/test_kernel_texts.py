"""Kernels as text: a dozen are kept, and no name in any of them stands for nothing."""

import ast
import builtins

import pytest

import kernel_texts
from kernel_texts import GOLDEN
from programs.cases import COVERING


@pytest.fixture(scope="module")
def kernels():
    return list(kernel_texts.kernels())


def test_a_dozen_kernels_are_those_that_were_kept(kernels):
    found = kernel_texts.kept(kernels)
    assert len(found) == len(list(GOLDEN.iterdir())) == 12
    for name, text in found.items():
        assert text == (GOLDEN / name).read_text(), f"{name}: see tests/kernel_texts.py"


def names_in(kernel):
    """The names that a kernel reads, and those that it stores or is given."""
    (worker, *_) = ast.parse(kernel.text).body
    names = [node for node in ast.walk(worker) if isinstance(node, ast.Name)]
    stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return {node.id for node in names}, stored | {argument.arg for argument in worker.args.args}


def test_every_name_in_a_kernel_stands_for_something(kernels):
    missing = set()
    for name, kernel in kernels:
        if isinstance(kernel, str):  # why there is none
            continue
        read, known = names_in(kernel)
        known |= kernel.names.keys() | vars(builtins).keys()
        known |= {f"neutral_of_{i}" for i, _ in enumerate(kernel.plan.gathers)}  # once types are
        missing |= {(one, name) for one in read - known}
    assert not missing


def operators_of(kernel):
    """Operators and other functions of the package that a kernel names."""
    read, _ = names_in(kernel)
    functions = [getattr(kernel.names.get(name), "python", None) for name in read]
    return {
        f"{one.__module__}.{one.__qualname__}"
        for one in functions
        if one is not None and one.__module__.startswith("evener.")
        and not one.__module__.startswith("evener.algorithms.")
    }  # fmt: skip


@pytest.mark.parametrize("target", COVERING)
def test_a_few_programs_name_every_operator(kernels, target):
    """What `make test` compiles or simulates for a target leaves none of its operators out."""
    names = {kernel_texts.name_of(program) for program in COVERING[target]}
    found, every = set(), set()
    for name, kernel in kernels:
        program, rest = name.split("-", 1)
        if not isinstance(kernel, str) and rest == f"{target}-auto":
            every |= operators_of(kernel)
            if program in names:
                found |= operators_of(kernel)
    assert len(every) > 40
    assert every - found == set()
