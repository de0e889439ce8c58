"""The argument ALGORITHM of commands: the name of an algorithm, or a user's program."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeGuard

from evener import algorithms
from evener.cli.generate import plain_sentence, read_docstring
from evener.cli.options import Option, options_of_function, options_of_program
from evener.errors import EvenerError, ProgramError, did_you_mean
from evener.programs.program import Program

SHORT_NAMES = {"bc": "betweenness", "cc": "connected_components", "pr": "pagerank"}
ALGORITHM_HELP = (
    f"{', '.join(algorithms.__all__)} (short: {', '.join(SHORT_NAMES)}); "
    "or a program of your own as module:Class or file.py:Class"
)


class Algorithm(NamedTuple):
    """What to run: its name, its summary, its options, and the call on a graph."""

    name: str
    summary: str
    options: list[Option]
    call: Callable[..., Any]

    @property
    def from_source(self) -> bool:
        """Whether it starts at required source vertices, and so may not reach all vertices."""
        return any(option.required and "SomeLabels" in option.kinds for option in self.options)


def find_algorithm(text: str) -> Algorithm:
    """Find an algorithm or program by name.

    Examples
    --------
    >>> from evener.cli.algorithm import find_algorithm
    >>> find_algorithm("cc").name
    'connected_components'
    """
    if ":" in text:
        return _algorithm_of(_find_program(text))
    function = _built_in(text)
    summary, _ = read_docstring(function)
    options = options_of_function(function)
    return Algorithm(function.__name__, plain_sentence(summary), options, function)


def programs_of(text: str) -> list[type[Program]]:
    """Find programs by name: those of an algorithm, with the usual one first.

    Examples
    --------
    >>> from evener.cli.algorithm import programs_of
    >>> programs_of("bfs")[0].__name__
    'BFS'
    """
    if ":" in text:
        return [_find_program(text)]
    module = sys.modules[_built_in(text).__module__]
    programs = [value for value in vars(module).values() if _is_program(value)]
    return [program for program in programs if program.__module__ == module.__name__]


def _built_in(text: str) -> Callable[..., Any]:
    name = SHORT_NAMES.get(text, text).replace("-", "_")
    if name not in algorithms.__all__:
        known = [*algorithms.__all__, *SHORT_NAMES]
        raise EvenerError(
            f"there is no algorithm {text!r}{did_you_mean(name, known)}; there are "
            f"{', '.join(algorithms.__all__)}, and your own programs as module:Class or "
            "file.py:Class."
        )
    return getattr(algorithms, name)


def _find_program(text: str) -> type[Program]:
    place, _, name = text.rpartition(":")
    module = _load_module(place)
    program = getattr(module, name, None)
    if not _is_program(program):
        known = _programs_in(module)
        raise ProgramError(
            f"{place} has no program {name!r}{did_you_mean(name, known)}; it has "
            f"{', '.join(known) or 'none'}."
        )
    return program


def _algorithm_of(program: type[Program]) -> Algorithm:
    name = program.__name__
    summary = (inspect.getdoc(program) or f"the program {name}").splitlines()[0]

    def call(graph: Any, **parameters: Any) -> Any:
        from evener.engine.run import run

        return run(program, graph, **parameters)

    return Algorithm(name, plain_sentence(summary), options_of_program(program), call)


def _is_program(value: Any) -> TypeGuard[type[Program]]:
    """Whether a value is a program, not just a base class of programs."""
    return isinstance(value, type) and issubclass(value, Program) and hasattr(value, "declaration")


def _programs_in(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if _is_program(value)]


def _load_module(place: str) -> ModuleType:
    """Import a file or a module; imports may use the file's folder or the current one."""
    path = Path(place).expanduser()
    is_file = place.endswith(".py") or os.sep in place
    if is_file and not path.is_file():
        raise ProgramError(f"{place} does not exist, or is not a file.")
    folder = str(path.resolve().parent) if is_file else os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return _import_file(path) if is_file else importlib.import_module(place)
    except EvenerError:
        raise
    except Exception as error:  # a user's file may raise anything when it is imported
        what = " ".join(str(error).split())
        raise ProgramError(f"{place} cannot be imported: {type(error).__name__}: {what}.") from None


def _import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ProgramError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module  # as import does: dataclasses and pickle look there
    try:
        spec.loader.exec_module(module)
    finally:
        if before is not None:
            sys.modules[path.stem] = before
    return module
