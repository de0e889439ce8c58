"""What a thread of a grid knows of the other parts; tables of two dimensions are flat here."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device import compiled

BOXED = 16  # words of one part for its box: the sizes of three, one for each stage in turn
MOST_PARTS = 32  # on one card: lanes of a warp
ROW = 4  # words of a row: cycles of communication, bytes, useful bytes, bytes of `all`


class World(NamedTuple):
    """What a thread knows of all parts; `engine.partition.divide` has bases, ghosts and home."""

    part: int
    parts: int
    threads: int  # of all parts on this card together
    first: int  # number among them of the first thread of this part
    share: Any  # of this block in a meeting of all
    sync: np.ndarray
    words: np.ndarray  # [turn, part, APART]: what is being agreed on
    bases: np.ndarray
    owned: np.ndarray
    ghosts: np.ndarray
    home: np.ndarray
    marks: np.ndarray  # of all slots
    box: np.ndarray  # emitted ghosts of all parts, each part from the number of its first ghost on
    boxed: np.ndarray  # [part, BOXED]
    bits: np.ndarray  # members of the frontier in all parts, ghosts included, as a pull needs them
    words_from: np.ndarray  # the first word of each part there
    counts: np.ndarray  # [receiver, sender]: values of this exchange that changed
    tally: np.ndarray  # [sender]: elements of replicated fields that changed
    traffic: np.ndarray  # [which, receiver, sender]
    policy: int
    measure: Any  # bytes of a message, a function of `evener.operators.shared.policies`
    hub: Any  # `evener.operators.shared.hub.Hub`


@compiled(allocates=False)
def share_of(first, block, blocks):
    """What a block adds at a meeting: all shares together turn the top bit."""
    share = np.int64(1)
    if first == 0 and block == 0:
        share = (np.int64(1) << np.int64(31)) - (blocks - 1)
    return np.uint32(share)
