"""Compiling functions that only other compiled code calls.

A kernel consists of some fifty small functions. Numba would optimize each of them, wrap it for
Python and generate machine code, and then inline it into the kernel anyway. Here a function stops
at its intermediate code, and the kernel is optimized once, as a whole. That halves the time of
compiling.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder


class _Codegen:
    """The code generator without the environments in which code finds Python objects."""

    def __init__(self, codegen: Any):
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: no code here reads it."""


class InnerLibrary(JITCodeLibrary):
    """Intermediate code to be linked into a kernel."""

    @property
    def codegen(self) -> Any:
        """The code generator, for the parts of Numba that make a function callable."""
        return _Codegen(self._codegen)

    def _optimize_final_module(self) -> None:
        """Left to the kernel."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Without machine code there is no address."""
        self._ensure_finalized()
        return 0


class InnerCompiler(CompilerBase):
    """The usual passes, into an `InnerLibrary`."""

    def define_pipelines(self) -> list[Any]:
        """One pipeline, that of functions in nopython mode."""
        codegen = self.state.targetctx.codegen()
        self.state.library = InnerLibrary(codegen, self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]
