"""Operations of a thread with the lanes of its warp, its block and the grid of a GPU.

A warp is 32 threads, its *lanes*, that run in step and can read each other's registers. The
functions are plain Python, with the meaning they have for a single thread; code compiled for a GPU
gets instructions (`evener.device.cuda.intrinsics`). All lanes of a warp must call them together,
and all threads of a block `sync_block`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evener.device import atomic
from evener.device.compile import compiled

WARP = 32
BLOCK = 512  # threads of a block
BUFFER = 128  # items of shared memory for each warp
# Words of a grid's sync besides the barrier's: the host's stop request, and the number of barriers
# passed, on its own cache line since all threads poll the first word.
CANCEL, BARRIERS = 8, 32

_TOP = np.int64(1) << np.int64(31)
_TOP_BIT = np.uint32(1 << 31)


def thread_of_block() -> int:
    """The number of this thread in its block."""
    return 0


def block() -> int:
    """The number of this thread's block."""
    return 0


def num_blocks() -> int:
    """How many blocks the grid has."""
    return 1


def ballot(holds: Any) -> Any:
    """One bit for each lane: whether the condition holds there."""
    return np.uint32(bool(holds))


def shuffle(value: Any, lane: Any) -> Any:
    """The value of another lane."""
    return value


def shuffle_up(value: Any, delta: Any) -> Any:
    """The value of the lane ``delta`` below; its own for the lowest."""
    return value


def shuffle_xor(value: Any, mask: Any) -> Any:
    """The value of the lane whose number differs in the bits of ``mask``."""
    return value


def count_bits(word: Any) -> int:
    """How many bits of a 32-bit word are set."""
    return int(word).bit_count()


def lowest_bit(word: Any) -> int:
    """The number of the lowest bit that is set in a nonzero word."""
    return (int(word) & -int(word)).bit_length() - 1


def set_bits(array: Any, index: Any, bits: Any) -> None:
    """Set bits of a word, atomically."""
    array[index] |= bits


def sync_warp() -> None:
    """Let all lanes see the writes of each."""


def sync_block() -> None:
    """Wait for all threads of the block, and see their writes."""


def arrive(array: Any, index: Any, value: Any) -> None:
    """Add to a word, publishing all writes so far to the grid."""
    atomic.add(array, index, value)


def load_now(array: Any, index: Any) -> Any:
    """Read a word that other blocks change."""
    return array[index]


def load_after(array: Any, index: Any) -> Any:
    """Read such a word, and see from then on what others published before writing it."""
    return array[index]


def prefetch(array: Any, index: Any) -> None:
    """Prefetch an element that a later stage reads."""


def told(array: Any, index: Any, value: Any) -> None:
    """Write a word of host memory, after all writes that this thread has seen."""
    array[index] = value


def hear(array: Any, index: Any) -> Any:
    """Read a word that the host or another GPU writes, and see what it wrote before."""
    return array[index]


def fence_host() -> None:
    """Let the host see all writes so far before any later one."""


def unknown(value: Any) -> Any:
    """The same number, hidden from the compiler, which then does not unroll loops up to it."""
    return value


def shared_buffer(like: Any) -> Any:
    """Shared memory of the block: `BUFFER` items for each warp."""
    return np.empty(BUFFER * BLOCK // WARP, like.dtype)


def shared_parts(like: Any) -> Any:
    """Shared memory of the block: one item for each warp."""
    return np.empty(BLOCK // WARP, like.dtype)


def cycles() -> int:
    """A monotonic clock of this multiprocessor."""
    return 0


@compiled(allocates=False)
def barrier(sync):
    """Wait until all threads of the grid are here, and see their writes.

    The last warp of the first block, which has the least to do, counts barriers.
    """
    meet(sync)
    if block() == 0 and thread_of_block() == BLOCK - WARP:
        atomic.add(sync, BARRIERS, np.uint32(1))


@compiled(allocates=False)
def meet(sync):
    """The barrier alone."""
    share = np.int64(1)
    if block() == 0:
        share = _TOP - (num_blocks() - 1)
    meet_at(sync, np.uint32(share))


@compiled(allocates=False)
def meet_at(sync, share):
    """Wait until the shares of all blocks add up.

    Each block adds one to a word, the first block what is missing to its top bit: when that bit
    flips, all have arrived (as in CUDA's cooperative groups). It cannot flip before this block has
    added its share, so the word is read before, while other threads of the block are still busy.
    """
    before = np.uint32(0)
    if thread_of_block() == 0:
        before = load_now(sync, 0)
    sync_block()
    if thread_of_block() == 0:
        arrive(sync, 0, share)
        while (before ^ load_after(sync, 0)) & _TOP_BIT == 0:
            pass
    sync_block()
