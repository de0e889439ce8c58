"""What differs on a grid for the parts on one card."""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.warp import BLOCK, block, meet_at

BOXED = 16  # words of one part's boxes: the sizes of three, used by stages in turn
MOST_PARTS = 32  # on one card: lanes of a warp
ROW = 4  # words of a row: cycles of communication, bytes, useful bytes, bytes of `all`


@compiled(allocates=False)
def meet(world):
    """Wait for all threads of all parts on this card: all shares together flip the top bit."""
    share = np.int64(1)
    if world.first == 0 and block() == 0:
        share = (np.int64(1) << np.int64(31)) - (world.threads // BLOCK - 1)
    meet_at(world.sync, np.uint32(share))
