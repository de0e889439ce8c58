"""Generate docs/benchmarks.md and its plots from the results files.

python benchmarks/report.py
"""

from __future__ import annotations

from pathlib import Path

from evener.bench.report import write_page

HERE = Path(__file__).parent

if __name__ == "__main__":
    for path in write_page(HERE / "results", HERE.parent / "docs" / "benchmarks.md"):
        print(f"written to {path}")
