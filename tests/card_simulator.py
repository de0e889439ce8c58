"""A GPU in the host's memory: all that the host does for a run on one, without a GPU.

`simulated_card` puts a module in the place of CuPy whose arrays are those of NumPy, and kernels in
the place of compiled ones that run as Python (`gpu_simulator`). Addresses are real ones, so
whatever the host works out (layouts, words of launches, copies, growing records, the hub) is what
the kernels work on. Any program can then run with ``device="cuda"``, ``"cuda+cuda"`` or
``"cpu+cuda"``; what numba-cuda and the driver do is left to a GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import types
from typing import Any

import numpy as np

from evener.device import cuda
from evener.device.cuda import card
from evener.engine.targets import parts_gpu
from gpu_simulator import THREADS, run_block
from parts_gpu_simulator import Simulation

FREE = 1 << 30  # bytes of the card


class _Buffer:
    """Memory of the card."""

    def __init__(self, nbytes: int):
        self.array = np.full(max(1, nbytes), 0xAB, np.uint8)  # what somebody left there
        self.ptr = self.array.ctypes.data


class CardArray(np.ndarray):
    """An array of the card."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(ptr=self.ctypes.data)

    def get(self, out: np.ndarray | None = None) -> np.ndarray:
        if out is None:
            return np.array(self)
        out[...] = self
        return out

    def set(self, values: np.ndarray) -> None:
        self[...] = values


def _on_card(function: Any) -> Any:
    def call(*arguments: Any, **options: Any) -> Any:
        return np.array(function(*arguments, **options)).view(CardArray)

    return call


class _Device(contextlib.AbstractContextManager):  # type: ignore[type-arg]
    attributes = types.MappingProxyType({"MultiProcessorCount": 1})
    compute_capability = "90"
    mem_info = (FREE, FREE)

    def __init__(self, ordinal: int = 0):
        self.id = ordinal

    def __exit__(self, *_: Any) -> None:
        return None


class _Stream(_Device):
    ptr = 0

    def __init__(self, **_: Any):
        super().__init__()

    def synchronize(self) -> None:
        return None


def _copy(target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
    ctypes.memmove(target, source, nbytes)


def _library() -> types.ModuleType:
    """A module with what Evener asks of CuPy."""
    made = types.ModuleType("cupy")
    for name in (
        "arange", "argsort", "array", "asarray", "cumsum", "diff", "empty", "full", "searchsorted",
        "sort", "tile", "zeros",
    ):  # fmt: skip
        setattr(made, name, _on_card(getattr(np, name)))
    made.ndarray = lambda shape, dtype, memory: _view(memory, shape, dtype)  # type: ignore[attr-defined]
    pool = types.SimpleNamespace(total_bytes=lambda: 0, free_bytes=lambda: 0)
    made.get_default_memory_pool = lambda: pool  # type: ignore[attr-defined]
    runtime = types.SimpleNamespace(
        memcpyHostToDevice=1, memcpyDeviceToHost=2, memcpyDeviceToDevice=3, memcpyAsync=_copy,
        memsetAsync=lambda address, value, nbytes, stream: ctypes.memset(address, value, nbytes),
        memGetInfo=lambda: (FREE, FREE), getDeviceCount=lambda: 2,
        hostRegister=lambda address, nbytes, flags: None, hostUnregister=lambda address: None,
        pointerGetAttributes=lambda address: types.SimpleNamespace(devicePointer=address),
        CUDARuntimeError=RuntimeError, deviceCanAccessPeer=lambda one, other: False,
    )  # fmt: skip
    made.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
        Device=_Device, Stream=_Stream, runtime=runtime, alloc=_Buffer,
        get_current_stream=_Stream, alloc_pinned_memory=bytearray,
        UnownedMemory=lambda address, nbytes, owner, ordinal: (address, owner),
        MemoryPointer=lambda memory, offset: memory,
    )  # fmt: skip
    return made


def _view(memory: tuple[int, Any], shape: tuple[int], dtype: Any) -> CardArray:
    made = _array_at(memory[0], shape[0], dtype).view(CardArray)
    made.owner = memory[1]  # type: ignore[attr-defined]
    return made


def _array_at(address: int, length: int, dtype: Any) -> np.ndarray:
    if length == 0:
        return np.empty(0, dtype)
    room = (ctypes.c_uint8 * (length * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(room, dtype)


class SimulatedKernel:
    """A kernel that runs as Python, with the words that a launch would take."""

    was_cached = False

    def __init__(self, function: Any, described: Any, blocks_each: int):
        self.function, self.described, self.blocks = function, described, 8

    def run(self, words: np.ndarray, sync: int) -> float:
        run_block(self.function, self.arguments(words))
        return 0.001

    def start_beside(self, words: list[np.ndarray], blocks: Any, group: int = 0) -> Any:
        arguments = [self.arguments(one) for one in words]
        return _Running(Simulation(self.function, arguments), arguments)

    def arguments(self, words: np.ndarray) -> tuple[Any, ...]:
        """The arrays and numbers that are at the addresses of a launch."""
        left = iter(words.tolist())

        def taken(described: Any) -> Any:
            if isinstance(described, tuple):
                items = [taken(one) for one in described]
                named = hasattr(described, "_fields")
                return type(described)(*items) if named else tuple(items)
            if described.endswith("[]"):
                address, length = next(left), next(left)
                return _array_at(address, length, described[:-2])
            word = np.array([next(left)], np.int64).tobytes()
            return np.frombuffer(word, described, 1)[0]

        return taken(self.described)


class _Running:
    def __init__(self, simulation: Simulation, arguments: Any):
        self.simulation, self.arguments = simulation, arguments

    def is_done(self) -> bool:
        self.simulation.check()
        return not self.simulation.thread.is_alive()

    def wait(self, syncs: list[int]) -> float:
        self.simulation.wait()
        return 0.001


def put_in_place(monkeypatch: Any) -> None:
    """Let ``cuda`` be a simulated card until the test ends."""
    monkeypatch.setitem(sys.modules, "cupy", _library())
    monkeypatch.setattr(card, "kernel_loaded", [True])
    monkeypatch.setattr(card, "_free", {})
    monkeypatch.setattr(cuda, "GridKernel", SimulatedKernel)
    monkeypatch.setattr(parts_gpu, "BLOCK", THREADS)
    monkeypatch.setattr(parts_gpu, "divide_blocks", lambda blocks, sizes: [1] * len(sizes))
    for cached in (card.library, card.total_memory):
        cached.cache_clear()
