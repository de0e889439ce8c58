"""Versions of Evener and its packages, for bug reports."""

from __future__ import annotations

import platform
from importlib import metadata

_PACKAGES = (
    "numpy",
    "numba",
    "llvmlite",
    "scipy",
    "polars",
    "rich",
    "zstandard",
    "numba-cuda",
    "cupy",
    "networkx",
    "pymetis",
    "matplotlib",
)
# CuPy's wheels are named after a CUDA release.
_OTHER_NAMES = {"cupy": ("cupy-cuda12x", "cupy-cuda13x")}


def evener_version() -> str:
    """The version of Evener itself.

    Examples
    --------
    >>> from evener.versions import evener_version
    >>> evener_version().count(".") >= 1
    True
    """
    # Imported late: the package imports this module while it is being imported itself.
    from evener import __version__

    return __version__


def versions() -> dict[str, str]:
    """Versions of Evener, Python and supported packages, and the available cores and memory.

    This imports no package; a missing one is ``"not installed"``.

    Examples
    --------
    >>> from evener.versions import versions
    >>> versions()["numpy"] != "not installed"
    True
    """
    from evener.device.limits import available_memory, format_bytes, num_cores, total_memory

    memory = f"{format_bytes(total_memory())}, {format_bytes(available_memory())} available"
    return {
        "evener": evener_version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": str(num_cores()),
        "memory": memory,
        **{package: _installed(package) for package in _PACKAGES},
    }


def show_versions() -> None:
    """Print the result of `versions`, one line each.

    Examples
    --------
    >>> import evener as ev
    >>> ev.show_versions()  # doctest: +ELLIPSIS
    evener      ...
    """
    for name, value in versions().items():
        print(f"{name:<11} {value}")


def _installed(package: str) -> str:
    for name in (package, *_OTHER_NAMES.get(package, ())):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "not installed"
