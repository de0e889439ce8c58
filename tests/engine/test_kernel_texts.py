"""The text of each kernel is the one that was kept: printers change it only where that is meant."""

import ast
import builtins

from kernel_texts import KEPT, kernels, sum_of, told


def test_the_texts_are_those_that_were_kept():
    kept = dict(line.split() for line in KEPT.read_text().splitlines())
    found = {name: sum_of(told(kernel)) for name, kernel in kernels()}
    changed = [name for name in found | kept if found.get(name) != kept.get(name)]
    assert not changed, f"{len(changed)} changed; compare them as tests/kernel_texts.py says"


def test_every_name_in_a_kernel_stands_for_something():
    missing = set()
    for name, kernel in kernels():
        if isinstance(kernel, str):  # why there is none
            continue
        (worker, *_) = ast.parse(kernel.text).body
        names = [node for node in ast.walk(worker) if isinstance(node, ast.Name)]
        stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        given = {argument.arg for argument in worker.args.args}
        known = stored | given | kernel.names.keys() | vars(builtins).keys()
        totals = {f"neutral_of_{i}" for i, _ in enumerate(kernel.plan.gathers)}  # once types are
        missing |= {(node.id, name) for node in names if node.id not in known | totals}
    assert not missing
