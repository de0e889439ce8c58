"""How the edges of a frontier are divided among the threads of a GPU: one file per schedule."""

from typing import Any

from evener.operators.gpu.schedules import (
    dynamic,
    merge_path,
    thread_mapped,
    virtual_warp,
    warp_segmentation,
)

SCHEDULES: dict[str, Any] = {
    "dynamic": dynamic,
    "thread_mapped": thread_mapped,
    "virtual_warp": virtual_warp.of_width(8),
    "warp_segmentation": warp_segmentation,
    "merge_path": merge_path,
    **{f"virtual_warp:{width}": virtual_warp.of_width(width) for width in virtual_warp.WIDTHS},
}
