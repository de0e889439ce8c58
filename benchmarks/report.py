"""Write docs/benchmarks.md from the results files: no figure there is typed by hand.

python benchmarks/report.py
"""

from __future__ import annotations

import json
from pathlib import Path

from harness import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def section(path: Path) -> str:
    content = json.loads(path.read_text())
    machine, versions = content["machine"], content["versions"]
    lines = [
        f"## {content['benchmark']}",
        "",
        f"{machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB; "
        f"commit {content['commit']}, seed {content['seed']}; Python {versions['python']}, "
        f"NumPy {versions['numpy']}, Numba {versions['numba']}, SciPy {versions['scipy']}, "
        f"polars {versions['polars']}. Source: `benchmarks/results/{path.name}`.",
        "",
        "| case | measured (median) | target | |",
        "|---|---|---|---|",
    ]
    for case in content["cases"]:
        verdict = "holds" if case["holds"] else "**missed**"
        lines.append(f"| {case['case']} | {case['figure']} | {case['target']} | {verdict} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    sections = [section(path) for path in sorted(RESULTS.glob("*.json"))]
    header = (
        "# Benchmarks\n\nWritten by `benchmarks/report.py` from the results files; "
        "ratios are within one run.\n"
    )
    PAGE.write_text("\n".join([header, *sections]))
    print(f"written to {PAGE}")


if __name__ == "__main__":
    main()
