"""The algorithms, one file each: program, public function, verifier.

A file is imported on first use of its function: analysing the functors of all algorithms takes
longer than importing the rest of the package.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from evener.device.locks import refusing_half_loaded

if TYPE_CHECKING:
    from evener.algorithms.betweenness import betweenness
    from evener.algorithms.bfs import bfs
    from evener.algorithms.circuit import circuit
    from evener.algorithms.connected_components import connected_components
    from evener.algorithms.heat import heat
    from evener.algorithms.neural import neural
    from evener.algorithms.pagerank import pagerank
    from evener.algorithms.sssp import sssp
    from evener.algorithms.sswp import sswp

__all__ = [
    "betweenness", "bfs", "circuit", "connected_components", "heat", "neural", "pagerank", "sssp",
    "sswp",
]  # fmt: skip


class _Algorithms(ModuleType):
    """A package whose attribute ``bfs`` is the function, even after an import of ``bfs.py``."""

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with refusing_half_loaded():
            return getattr(importlib.import_module(f"{__name__}.{name}"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        # An import makes the file an attribute of its package, under the function's name.
        if name in __all__ and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Algorithms
