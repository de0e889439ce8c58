"""Atomic updates of array elements: one name on every device.

Each function returns the old value. In plain Python they are ordinary updates, as the interpreted
device needs them; compiled code gets the processor's instruction (`evener.device.cpu.atomic`).
Arrays hold integers or floats of 32 or 64 bits.
"""

from __future__ import annotations

from typing import Any

__all__ = ["add", "cas", "exchange", "max", "min"]


def add(array: Any, index: Any, value: Any) -> Any:
    """Add ``value`` to ``array[index]``; return the old value.

    On several devices a program must not use the old value of a vertex that another device may
    own: that device may be adding to it too.

    Examples
    --------
    >>> import evener as ev
    >>> class Arriving(ev.Program):
    ...     arrived = ev.Field("int64", merge="sum")
    ...     @ev.functor
    ...     def arrive(src, dst, edge, s):
    ...         ev.atomic.add(s.arrived, dst, 1)
    ...         return False
    ...     loop = ev.stages.advance(arrive)
    >>> ev.run(Arriving, ev.generate.star(4), device="python").arrived.tolist()
    [3, 1, 1, 1]
    """
    old = array[index]
    array[index] = old + value
    return old


def min(array: Any, index: Any, value: Any) -> Any:
    """Lower ``array[index]`` to ``value`` if that is less; return the old value.

    Examples
    --------
    >>> import evener as ev
    >>> class Lowest(ev.Program):
    ...     lowest = ev.Field("int64", merge="min")
    ...     @ev.functor
    ...     def offer(src, dst, edge, s):
    ...         return ev.atomic.min(s.lowest, dst, s.id[src]) > s.id[src]
    ...     loop = ev.stages.advance(offer)
    >>> ev.run(Lowest, ev.generate.star(4), device="python").lowest.tolist()
    [1, 0, 0, 0]
    """
    old = array[index]
    if value < old:
        array[index] = value
    return old


def max(array: Any, index: Any, value: Any) -> Any:
    """Raise ``array[index]`` to ``value`` if that is more; return the old value.

    Examples
    --------
    >>> import evener as ev
    >>> class Highest(ev.Program):
    ...     highest = ev.Field("int64", merge="max")
    ...     @ev.functor
    ...     def offer(src, dst, edge, s):
    ...         return ev.atomic.max(s.highest, dst, s.id[src]) < s.id[src]
    ...     loop = ev.stages.advance(offer)
    >>> ev.run(Highest, ev.generate.star(4), device="python").highest.tolist()
    [3, 0, 0, 0]
    """
    old = array[index]
    if value > old:
        array[index] = value
    return old


def exchange(array: Any, index: Any, value: Any) -> Any:
    """Set ``array[index]`` to ``value``; return the old value.

    Examples
    --------
    >>> import evener as ev
    >>> class Heard(ev.Program):
    ...     heard = ev.Field("int64", fill=-1, merge="any")
    ...     @ev.functor
    ...     def tell(src, dst, edge, s):
    ...         return ev.atomic.exchange(s.heard, dst, s.id[src]) < 0
    ...     def start(self):
    ...         return [0]
    ...     loop = ev.stages.advance(tell)
    >>> ev.run(Heard, ev.generate.star(4), device="python").heard.tolist()
    [-1, 0, 0, 0]
    """
    old = array[index]
    array[index] = value
    return old


def cas(array: Any, index: Any, expected: Any, value: Any) -> Any:
    """Set ``array[index]`` to ``value`` if it holds ``expected``; return the old value.

    Examples
    --------
    >>> import evener as ev
    >>> class Parents(ev.Program):
    ...     parent = ev.Field("int64", fill=-1, merge="any")
    ...     @ev.functor
    ...     def claim(src, dst, edge, s):
    ...         return ev.atomic.cas(s.parent, dst, -1, s.id[src]) == -1
    ...     def start(self, root: ev.Vertex):
    ...         self.parent[root] = root
    ...         return [root]
    ...     loop = ev.stages.repeat(ev.stages.advance(claim))
    >>> ev.run(Parents, ev.generate.path(4), root=1, device="python").parent.tolist()
    [1, 1, 1, 2]
    """
    old = array[index]
    if old == expected:
        array[index] = value
    return old
