"""The updates of `evener.device.atomic` for an element that only one thread accesses.

The same functions, compiled as ordinary Python instead of as instructions.
"""

from __future__ import annotations

from evener.device import atomic
from evener.device.compile import compiled

add = compiled(atomic.add, allocates=False)
min = compiled(atomic.min, allocates=False)
max = compiled(atomic.max, allocates=False)
exchange = compiled(atomic.exchange, allocates=False)
cas = compiled(atomic.cas, allocates=False)
