"""Memory of GPUs: allocating, copying, and arguments of a launch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from evener.device.cuda.card import library, on


def allocate(nbytes: int) -> Any:
    """Memory of the current GPU, from the pool; its address is ``ptr``."""
    return library().cuda.alloc(nbytes)


def join_peers(ordinals: list[int]) -> bool:
    """Let GPUs access the memory of the first one if all can; returns whether they can."""
    runtime = library().cuda.runtime
    first, others = ordinals[0], sorted(set(ordinals[1:]) - {ordinals[0]})
    if not all(runtime.deviceCanAccessPeer(other, first) for other in others):
        return False
    for other in others:
        if (other, first) not in _joined:
            with on(other):
                runtime.deviceEnablePeerAccess(first)
            _joined.add((other, first))
    return True


_joined: set[tuple[int, int]] = set()


def on_card(length: int, dtype: Any) -> Any:
    """An array in the memory of the current GPU, filled with zeros."""
    return library().zeros(max(1, length), dtype)


def pinned(length: int, dtype: Any) -> np.ndarray:
    """An array in host memory that kernels reach at the same address."""
    dtype = np.dtype(dtype)
    memory = library().cuda.alloc_pinned_memory(max(1, length) * dtype.itemsize)
    return np.frombuffer(memory, dtype, max(1, length))


def address_of(array: Any) -> int:
    """The address of an array, in host or GPU memory."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def upload(address: int, array: np.ndarray, stream: Any = None) -> None:
    """Copy an array to the current GPU, in the order of its stream."""
    cuda = library().cuda
    stream = stream or cuda.get_current_stream()
    kind = cuda.runtime.memcpyHostToDevice
    cuda.runtime.memcpyAsync(address, array.ctypes.data, array.nbytes, kind, stream.ptr)


def download(address: int, nbytes: int) -> np.ndarray:
    """Copy bytes from the current GPU after all earlier work."""
    cuda = library().cuda
    array = np.empty(nbytes, np.uint8)
    stream = cuda.get_current_stream()
    kind = cuda.runtime.memcpyDeviceToHost
    cuda.runtime.memcpyAsync(array.ctypes.data, address, nbytes, kind, stream.ptr)
    stream.synchronize()
    return array


def copy(address: int, source: int, nbytes: int) -> None:
    """Copy within the current GPU, in the order of its stream."""
    cuda = library().cuda
    kind = cuda.runtime.memcpyDeviceToDevice
    cuda.runtime.memcpyAsync(address, source, nbytes, kind, cuda.get_current_stream().ptr)


def clear(address: int, nbytes: int) -> None:
    """Fill memory of the current GPU with zeros."""
    cuda = library().cuda
    cuda.runtime.memsetAsync(address, 0, nbytes, cuda.get_current_stream().ptr)


class Span(NamedTuple):
    """An array of the GPU, as a kernel sees it; the region of its address may come later."""

    dtype: np.dtype
    size: int
    address: int
    region: str = ""
    ndim: int = 1

    def __getitem__(self, part: slice) -> Span:  # type: ignore[override]
        first, last, _ = part.indices(self.size)
        address = self.address + first * self.dtype.itemsize
        return self._replace(size=last - first, address=address)


class Packed(NamedTuple):
    """Arguments as words: each array as its address and its length."""

    words: np.ndarray
    regions: tuple[str, ...]  # that hold arrays
    addresses: np.ndarray  # words that are addresses within one,
    of_region: np.ndarray  # and the region of each
    values: np.ndarray  # words that are plain values

    def placed(self, begins: dict[str, int], values: Iterable[Any]) -> np.ndarray:
        """The words if regions begin at these addresses, with these values."""
        words = self.words.copy()
        where = np.array([begins.get(region, 0) for region in self.regions], np.int64)
        words[self.addresses] += where[self.of_region]
        words[self.values] = [bits_of(value) for value in values]
        return words


def pack(arguments: tuple[Any, ...]) -> Packed:
    """Arguments for a launch, each in words of 64 bits."""
    words: list[int] = []
    addresses: dict[int, str] = {}  # the region, by the number of the word
    values: list[int] = []

    def add(value: Any) -> None:
        if isinstance(value, tuple) and not isinstance(value, Span):
            for item in value:
                add(item)
        elif getattr(value, "ndim", 0):
            if isinstance(value, Span):
                addresses[len(words)] = value.region
                address = value.address
            else:
                address = value.data.ptr if value.size else 0
            words.extend((address, value.size))
        else:
            values.append(len(words))
            words.append(bits_of(value))

    add(arguments)
    regions = tuple(dict.fromkeys(addresses.values()))
    of_region = [regions.index(region) for region in addresses.values()]
    return Packed(
        np.array(words, np.int64), regions, np.array(list(addresses), np.int64),
        np.array(of_region, np.int64), np.array(values, np.int64),
    )  # fmt: skip


def bits_of(value: Any) -> int:
    """The word that holds a number of up to 64 bits."""
    return int.from_bytes(np.asarray(value).tobytes().ljust(8, b"\0"), "little", signed=True)
