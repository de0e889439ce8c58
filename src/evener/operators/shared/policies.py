"""Exchange policies: the form of messages on a link between two parts.

Of the ``ghosts`` values of a link, ``width`` bytes each, ``changed`` are new; the owner's array has
``owned``. A message can hold the *changed* values with their indices; or those after a bit for
each ghost (*flagged*); or *every* ghost's value, without indices, as both sides know the list; or
the *whole* owned array.

A policy is an object with two methods that return the form of a message: ``reduce`` from ghosts to
their owner, ``broadcast`` from an owner to its ghosts. They are compiled into the kernel, so they
only calculate. The papers' policies are here; users may pass their own.
"""

from __future__ import annotations

import dis
import inspect
from typing import Any, NamedTuple

import numpy as np

from evener.device import compiled
from evener.errors import EvenerError

FORMS = CHANGED, FLAGGED, EVERY, WHOLE = 0, 1, 2, 3
INDEX = 4  # bytes of an index within a link
# Links to test a user's policy with: nothing new, little, much, all.
_LINKS = ((0, 1, 1, 4), (1, 100, 1000, 8), (60, 100, 1000, 4), (100, 100, 100, 8))


class All:
    """Owners send their whole array (Medusa)."""

    @staticmethod
    def reduce(changed, ghosts, owned, width):  # noqa: D102
        return EVERY

    @staticmethod
    def broadcast(changed, ghosts, owned, width):  # noqa: D102
        return WHOLE


class MaximalSubset:
    """The values of all vertices at the boundary (TOTEM)."""

    @staticmethod
    def reduce(changed, ghosts, owned, width):  # noqa: D102
        return EVERY

    @staticmethod
    def broadcast(changed, ghosts, owned, width):  # noqa: D102
        return EVERY


class Refined:
    """Only what changed, in the smallest form (vertex refinement)."""

    @staticmethod
    def reduce(changed, ghosts, owned, width):  # noqa: D102
        indexed = changed * (width + INDEX)
        flagged = (ghosts + 7) // 8 + changed * width
        if ghosts * width <= min(indexed, flagged):
            return EVERY
        return CHANGED if indexed <= flagged else FLAGGED

    broadcast = reduce


NAMES = {"all": All, "maximal_subset": MaximalSubset, "refined": Refined}
_NUMBERS = {name: number for number, name in enumerate(NAMES)}
_every = compiled(MaximalSubset.reduce, allocates=False)
_whole = compiled(All.broadcast, allocates=False)
_smallest = compiled(Refined.reduce, allocates=False)


class Policy(NamedTuple):
    """A policy as kernels take it: a number, and the function for the bytes of a message."""

    number: int
    measure: Any
    methods: Any  # the object with the two methods, as plain Python

    @property
    def name(self) -> str:
        """The name that users pass, or that of their own class."""
        own = self.methods if isinstance(self.methods, type) else type(self.methods)
        return next((name for name, known in NAMES.items() if known is own), own.__name__)


@compiled(allocates=False)
def size_of(form, changed, ghosts, owned, width, flagged):
    """Bytes of a message; ``flagged`` if it also says which vertices are in the frontier."""
    if form == CHANGED:
        return changed * (width + INDEX)
    if form == FLAGGED:
        return (ghosts + 7) // 8 + changed * width
    number = owned if form == WHOLE else ghosts
    return number * width + ((number + 7) // 8 if flagged else 0)


@compiled(allocates=False)
def measure(number, owners_tell, changed, ghosts, owned, width, flagged):
    """Bytes of one message under a policy of this module."""
    if number == 2:
        form = _smallest(changed, ghosts, owned, width)
    elif number == 0 and owners_tell:
        form = _whole(changed, ghosts, owned, width)
    else:
        form = _every(changed, ghosts, owned, width)
    return size_of(form, changed, ghosts, owned, width, flagged)


def policy_of(exchange: Any) -> Policy:
    """The policy for a name, or for an object with the two methods.

    Examples
    --------
    >>> from evener.operators.shared.policies import policy_of
    >>> policy_of("refined").number
    2
    """
    if isinstance(exchange, str) and exchange in NAMES:
        return Policy(_NUMBERS[exchange], measure, NAMES[exchange])
    methods = [getattr(exchange, name, None) for name in ("reduce", "broadcast")]
    if isinstance(exchange, str) or not all(map(callable, methods)):
        known = ", ".join(map(repr, NAMES))
        raise EvenerError(
            f"exchange is {exchange!r}; it must be {known} or an object with the methods reduce "
            "and broadcast."
        )
    for method in methods:
        _require_numbers_only(method)
        _require_forms(method)
    reduce, broadcast = map(_plain, methods)

    def measured(number, owners_tell, changed, ghosts, owned, width, flagged):
        if owners_tell:
            form = broadcast(changed, ghosts, owned, width)
        else:
            form = reduce(changed, ghosts, owned, width)
        return size_of(form, changed, ghosts, owned, width, flagged)

    return Policy(-1, compiled(measured, allocates=False), exchange)


def _require_numbers_only(method: Any) -> None:
    """Refuse a method that takes anything but the four numbers, or reads its object."""
    name = getattr(method, "__qualname__", repr(method))
    try:
        inspect.signature(method).bind(0, 0, 0, 0)
    except TypeError:
        raise EvenerError(
            f"{name} of an exchange policy must take changed, ghosts, owned and width."
        ) from None
    if inspect.ismethod(method):
        own = method.__code__.co_varnames[0]
        read = {one.argval for one in dis.get_instructions(method) if "FAST" in one.opname}
        # Newer Pythons read two names at once.
        if any(own == one or (isinstance(one, tuple) and own in one) for one in read):
            raise EvenerError(
                f"{name} of an exchange policy reads {own}; it is compiled and only calculates: "
                "use constants of its module instead."
            )


def _require_forms(method: Any) -> None:
    """Refuse a method that fails, or does not return a form, for some kinds of links."""
    for link in _LINKS:
        try:
            form = method(*link)
        except Exception as error:
            name = getattr(method, "__qualname__", repr(method))
            raise EvenerError(
                f"{name} of an exchange policy fails for (changed, ghosts, owned, width) = {link}: "
                f"{type(error).__name__}: {error}."
            ) from error
        require_form(form)


def require_form(form: Any) -> None:
    """Refuse a policy's result that is not a form of a message."""
    if isinstance(form, bool) or not isinstance(form, int | np.integer) or form not in FORMS:
        raise EvenerError(
            f"an exchange policy returned {form!r}; return CHANGED, FLAGGED, EVERY or WHOLE of "
            "evener.operators.shared.policies."
        )


def _plain(method: Any) -> Any:
    """A method as a compiled function of its four numbers; it cannot read its object."""
    if not inspect.ismethod(method):
        return compiled(method, allocates=False)
    inner = compiled(method.__func__, allocates=False)

    def bound(changed, ghosts, owned, width):
        return inner(None, changed, ghosts, owned, width)

    return compiled(bound, allocates=False)
