"""Folders that tests read from."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
DATA = Path(os.environ.get("EVENER_DATA", ROOT.parent / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder of real graphs is not beside this checkout"
)
