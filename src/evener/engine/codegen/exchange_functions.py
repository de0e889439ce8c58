"""The small functions that exchange operators call to copy and merge fields, as text."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from evener.device import compiled
from evener.programs.fields import neutral
from evener.programs.program import Declaration

SLOT = "np.uint64(p) * np.uint64(length) + i"  # of an element, in part p's copy of the field
BETTER = {"min": "<", "max": ">"}


class Texts:
    """Writes the functions that exchange operators call, for fields in a given order."""

    def __init__(self, d: Declaration, fields: list[str], shadowed: list[str], zeroed: set[str]):
        self.d, self.fields, self.shadowed, self.zeroed = d, fields, shadowed, zeroed

    def value(self, name: str, at: str) -> str:
        """The value of a field in a slot."""
        return f"values[{self.fields.index(name)}][{at}]"

    def old(self, name: str, at: str = "g") -> str:
        """The value of a field at a ghost before the stage."""
        return f"olds[{self.shadowed.index(name)}][{at}]"

    def copy(self, broadcast: tuple[str, ...]) -> str:
        """``copy(values, olds, slot, g, home)``: a ghost takes the values of its owner."""
        lines = ["new = False"]
        for name in broadcast:
            lines += [
                f"x = {self.value(name, 'home')}",
                f"if {differ(self.value(name, 'slot'), 'x')}:",
                "    new = True",
                f"    {self.value(name, 'slot')} = x",
            ]
            if name in self.shadowed:
                lines.append(f"{self.old(name)} = x")
        lines += [f"{self.value(name, 'slot')} = 0" for name in sorted(self.zeroed)]
        return _function("copy(values, olds, slot, g, home)", [*lines, "return new"])

    def peek(self, names: tuple[str, ...]) -> str:
        """``peek(values, home)``: read the values of an owner before they are needed.

        With `place` it is `copy` in two steps, so that reads for several ghosts overlap.
        """
        found = "".join(f"{self.value(name, 'home')}, " for name in names)
        return _function("peek(values, home)", [f"return ({found}0,)"])

    def place(self, names: tuple[str, ...]) -> str:
        """``place(values, olds, slot, g, found)``: a ghost takes the values that `peek` read."""
        lines = []
        for i, name in enumerate(names):
            lines.append(f"{self.value(name, 'slot')} = found[{i}]")
            if name in self.shadowed:
                lines.append(f"{self.old(name)} = found[{i}]")
        lines += [f"{self.value(name, 'slot')} = 0" for name in sorted(self.zeroed)]
        return _function("place(values, olds, slot, g, found)", lines or ["pass"])

    def give(self, broadcast: tuple[str, ...], careful: bool) -> str:
        """``give(values, inside, slot, home)``: a ghost takes the values of its owner.

        Only ghosts ``inside`` the frontier need them, but a mispredicted branch costs more than a
        copy. With ``careful`` the others are skipped: their owners' values may be missing.
        """
        lines = [f"{self.value(name, 'slot')} = {self.value(name, 'home')}" for name in broadcast]
        if careful and lines:
            lines = ["if inside:", *_indent(lines)]
        return _function("give(values, inside, slot, home)", lines or ["pass"])

    def pack(self, names: Sequence[str]) -> str:
        """``pack(values, boxes, slot, at)``: put the values of a slot into the hub."""
        lines = [f"boxes[{i}][at] = {self.value(name, 'slot')}" for i, name in enumerate(names)]
        return _function("pack(values, boxes, slot, at)", lines or ["pass"])

    def unpack(self, names: Sequence[str]) -> str:
        """``unpack(values, boxes, slot, at)``: take the values of a slot out of the hub."""
        lines = [f"{self.value(name, 'slot')} = boxes[{i}][at]" for i, name in enumerate(names)]
        return _function("unpack(values, boxes, slot, at)", lines or ["pass"])

    def arrive(self, names: tuple[str, ...]) -> str:
        """``arrive(values, olds, boxes, slot, g, at)``: as `copy`, out of the hub."""
        lines = ["new = False"]
        for i, name in enumerate(names):
            lines += [
                f"x = boxes[{i}][at]",
                f"if {differ(self.value(name, 'slot'), 'x')}:",
                "    new = True",
                f"    {self.value(name, 'slot')} = x",
            ]
            if name in self.shadowed:
                lines.append(f"{self.old(name)} = x")
        lines += [f"{self.value(name, 'slot')} = 0" for name in sorted(self.zeroed)]
        return _function("arrive(values, olds, boxes, slot, g, at)", [*lines, "return new"])

    def shadow(self, names: tuple[str, ...]) -> str:
        """``shadow(values, olds, home, g)``: keep the values that a ghost elsewhere starts with."""
        kept = [name for name in names if name in self.shadowed]
        lines = [f"{self.old(name)} = {self.value(name, 'home')}" for name in kept]
        return _function("shadow(values, olds, home, g)", lines or ["pass"])

    def differs(self, name: str) -> str:
        """A test whether a stage has changed a field at a ghost."""
        if name in self.zeroed:
            return f"{self.value(name, 'slot')} != 0"
        return differ(self.value(name, "slot"), self.old(name))

    def is_changed(self, groups: dict[str, tuple[str, ...]]) -> str:
        """``is_changed(values, olds, slot, g)``: whether a stage has changed a ghost."""
        tests = [self.differs(name) for group in groups.items() for name in (group[0], *group[1])]
        return _function(
            "is_changed(values, olds, slot, g)", [f"return {' or '.join(tests) or 'False'}"]
        )

    def merge(self, groups: dict[str, tuple[str, ...]], dtypes: dict[str, np.dtype]) -> str:
        """``merge(values, olds, home, slot, g)``: merge the values of a ghost into its owner's."""
        lines: list[str] = []
        for leader, followers in groups.items():
            mine = {name: self.value(name, "home") for name in (leader, *followers)}
            theirs = {name: self.value(name, "slot") for name in (leader, *followers)}
            added = {
                name: theirs[name] if name in self.zeroed else f"{theirs[name]} - {self.old(name)}"
                for name in (leader, *followers)
            }
            tests = " or ".join(self.differs(name) for name in (leader, *followers))
            lines.append(f"if {tests}:")
            sent = {
                name: "True" if self.d.fields[name].merge == "sum"
                else f"{self.differs(name)} or {self.differs(leader)}"
                for name in followers
            }  # fmt: skip
            lines += _indent(
                merge_group(self.d, leader, followers, mine, theirs, added, sent, dtypes)
            )
        return _function("merge(values, olds, home, slot, g)", lines or ["pass"])

    def merge_emitted(self, leader: str, followers: tuple[str, ...]) -> str:
        """``merge(values, home, slot)``: merge a stale ghost; returns whether the owner changed."""
        better = BETTER[str(self.d.fields[leader].merge)]
        lines = [
            f"if {self.value(leader, 'slot')} {better} {self.value(leader, 'home')}:",
            *(
                f"    {self.value(name, 'home')} = {self.value(name, 'slot')}"
                for name in (leader, *followers)
            ),
            "    return True",
            "return False",
        ]
        return _function("merge(values, home, slot)", lines)

    def look(self, leader: str, followers: tuple[str, ...]) -> str:
        """``look(values, home, slot)``: the leader of an owner, and all values of its ghost."""
        found = [self.value(leader, "home")]
        found += [self.value(name, "slot") for name in (leader, *followers)]
        return _function("look(values, home, slot)", [f"return ({', '.join(found)})"])

    def improve(self, leader: str, followers: tuple[str, ...]) -> str:
        """``improve(values, home, found)``: with `look` it is `merge_emitted` in two steps."""
        better = BETTER[str(self.d.fields[leader].merge)]
        lines = [f"if found[1] {better} found[0]:"]
        lines += [
            f"    {self.value(name, 'home')} = found[{i}]"
            for i, name in enumerate((leader, *followers), start=1)
        ]
        return _function(
            "improve(values, home, found)", [*lines, "    return True", "return False"]
        )

    def merge_if(self, leader: str, followers: tuple[str, ...]) -> str:
        """``merge_if(values, told, home, slot)``: `merge_emitted` if ``told``, without a branch."""
        better = BETTER[str(self.d.fields[leader].merge)]
        lines = [
            f"joins = told & ({self.value(leader, 'slot')} {better} {self.value(leader, 'home')})"
        ]
        for name in (leader, *followers):
            mine, theirs = self.value(name, "home"), self.value(name, "slot")
            lines += [f"a, b = {theirs}, {mine}", f"{mine} = a if joins else b"]
        return _function("merge_if(values, told, home, slot)", [*lines, "return joins"])

    def differ(self) -> str:
        """``differ(values, olds, first, last, at)``: count the changed elements of a copy.

        Its loop is simple enough for vector instructions.
        """
        lines = []
        for i in range(len(self.fields)):
            lines.append(f"mine_{i} = values[{i}][at + first : at + last]")
            lines.append(f"old_{i} = olds[{i}][first:last]")
        pairs = [(f"mine_{i}[i]", f"old_{i}[i]") for i in range(len(self.fields))]
        tests = " | ".join(differ(*pair) for pair in pairs)
        lines += ["found = 0", "for i in range(last - first):", f"    found += {tests}"]
        return _function("differ(values, olds, first, last, at)", [*lines, "return found"])

    def keep(self) -> str:
        """``keep(values, olds, first, last)``: keep the old values of a copy that parts share."""
        lines = []
        for i in range(len(self.fields)):
            lines.append(f"mine_{i}, old_{i} = values[{i}][first:last], olds[{i}][first:last]")
            lines += ["for i in range(last - first):", f"    old_{i}[i] = mine_{i}[i]"]
        return _function("keep(values, olds, first, last)", lines)

    def unite(self, followers: tuple[str, ...], dtypes: dict[str, np.dtype]) -> str:
        """``merge(values, olds, first, last, length, parts)``: give all copies one value.

        The first changed copy replaces the old value: a part may have raised a minimum on purpose.
        """
        head = "merge(values, olds, first, last, length, parts)"
        leader = next(name for name in self.fields if name not in followers)
        if followers:
            lines = ["for k in range(first, last):", "    i = np.uint64(k)"]
            return _function(head, lines + _indent(self._unite(leader, followers, dtypes)))
        merge = self.d.fields[leader].merge
        both = {"min": "min(a, b)", "max": "max(a, b)"}.get(str(merge), "b")
        chosen = f"b if a == c else (a if b == c else {both})"
        if merge == "sum":
            chosen = "a + (b - c)"
        return _function(head, [
            "n = last - first",
            "old, result = olds[0][first:last], values[0][first:last]",
            "for p in range(1, parts):",
            "    theirs = values[0][p * length + first : p * length + last]",
            "    for i in range(n):",
            "        a, b, c = result[i], theirs[i], old[i]",
            f"        result[i] = {chosen}",
            "for p in range(1, parts):",
            "    theirs = values[0][p * length + first : p * length + last]",
            "    for i in range(n):",
            "        theirs[i] = result[i]",
            "for i in range(n):",
            "    old[i] = result[i]",
        ])  # fmt: skip

    def _unite(
        self, leader: str, followers: tuple[str, ...], dtypes: dict[str, np.dtype]
    ) -> list[str]:
        names = (leader, *followers)
        mine = {name: f"r_{name}" for name in names}
        theirs = {name: self.value(name, SLOT) for name in names}
        differs = {name: differ(theirs[name], f"o_{name}") for name in names}
        added = {name: f"{theirs[name]} - o_{name}" for name in names}
        lines = [f"o_{name} = r_{name} = {self.old(name, 'i')}" for name in names]
        lines += ["for p in range(parts):", f"    if {' or '.join(differs.values())}:"]
        sent = {
            name: "True" if self.d.fields[name].merge == "sum"
            else f"{differs[name]} or {differs[leader]}"
            for name in followers
        }  # fmt: skip
        merging = merge_group(self.d, leader, followers, mine, theirs, added, sent, dtypes)
        lines += _indent(_indent(merging))
        for name in names:
            lines.append(f"{self.old(name, 'i')} = r_{name}")
            lines.append("for p in range(parts):")
            lines.append(f"    {self.value(name, SLOT)} = r_{name}")
        return lines


def differ(one: str, other: str) -> str:
    """A test whether two values differ; NaN equals NaN."""
    return f"(({one} != {other}) & (({one} == {one}) | ({other} == {other})))"


def merge_group(
    d: Declaration, leader: str, followers: tuple[str, ...], mine: dict[str, str],
    theirs: dict[str, str], added: dict[str, str], sent: dict[str, str],
    dtypes: dict[str, np.dtype],
) -> list[str]:  # fmt: skip
    """The lines that merge the values of a leader and its followers."""
    if not followers:
        return merge_value(d, leader, mine[leader], theirs[leader], added[leader])
    better = BETTER[str(d.fields[leader].merge)]
    lines = [f"best = {mine[leader]}", f"if {theirs[leader]} {better} best:"]
    lines.append(f"    {mine[leader]} = {theirs[leader]}")
    for name in followers:
        merge = d.fields[name].merge
        if merge is not None:
            lines.append(f"    {mine[name]} = {_literal(neutral(merge, dtypes[name]))}")
    lines.append(f"if {theirs[leader]} == {mine[leader]}:")
    for name in followers:
        lines.append(f"    if {sent[name]}:")
        lines += _indent(_indent(merge_value(d, name, mine[name], theirs[name], added[name])))
    return lines


def merge_value(d: Declaration, name: str, mine: str, theirs: str, added: str) -> list[str]:
    """The lines that merge one value into another."""
    merge = d.fields[name].merge
    if merge in BETTER:
        return [f"if {theirs} {BETTER[merge]} {mine}:", f"    {mine} = {theirs}"]
    return [f"{mine} += {added}" if merge == "sum" else f"{mine} = {theirs}"]


def _literal(value: Any) -> str:
    if isinstance(value, float) and np.isinf(value):
        return "np.inf" if value > 0 else "-np.inf"
    return repr(value)


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _function(head: str, lines: list[str]) -> str:
    return f"def {head}:\n" + "\n".join(_indent(lines)) + "\n"


@functools.lru_cache(maxsize=256)
def function_of(text: str) -> Any:
    """The compiled function of a text."""
    scope: dict[str, Any] = {"np": np, "__name__": __name__}
    exec(compile(text, "<evener exchange>", "exec"), scope)
    name = text[len("def ") : text.index("(")]
    return compiled(scope[name], allocates=False)
