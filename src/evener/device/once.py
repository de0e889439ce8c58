"""Properties that are computed on first access, without a lock.

Up to Python 3.11 `functools.cached_property` has a lock for each property, shared by all objects:
one thread computes at a time, and a child that is forked meanwhile waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):
    """A property that is computed once; if two threads compute it at once, one value stays.

    Examples
    --------
    >>> from evener.device.once import once
    >>> class Circle:
    ...     @once
    ...     def area(self):
    ...         print("computing")
    ...         return 3.14
    >>> circle = Circle()
    >>> circle.area, circle.area
    computing
    (3.14, 3.14)
    """

    def __init__(self, compute: Callable[[Any], T]):
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        """Compute the value and store it where later accesses find it."""
        if instance is None:
            return self
        return instance.__dict__.setdefault(self._name, self._compute(instance))
