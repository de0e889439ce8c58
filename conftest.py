"""Settings and fixtures of all tests."""

import gc
import importlib.util
import os
import signal
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

# Any example may compile, so none has a deadline. CI repeats the same examples.
hypothesis.settings.register_profile(
    "evener", deadline=None, derandomize=os.environ.get("CI") == "true", print_blob=True
)
hypothesis.settings.load_profile("evener")


# A shell starts background jobs with Ctrl-C ignored, which several tests wait for.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The compiler keeps many objects: searching them for garbage takes a tenth of the time.
gc.set_threshold(100_000, 20, 50)

# These import numba-cuda, which is an extra.
_GPU = [f"**/device/cuda/{name}.py" for name in ("arrays", "intrinsics", "serial", "ufuncs")]
collect_ignore_glob = [] if importlib.util.find_spec("numba_cuda") else _GPU


@pytest.fixture(scope="module", autouse=True)
def _little_to_collect() -> Iterator[None]:
    """Exempt what a module leaves, mostly compiled code, from further garbage collections."""
    yield
    gc.collect(1)
    gc.freeze()


@pytest.fixture(autouse=True)
def _doctest_names(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    """Give doctests ``tmp_path``; other tests request it themselves."""
    if isinstance(request.node, pytest.DoctestItem):
        doctest_namespace["tmp_path"] = request.getfixturevalue("tmp_path")


@pytest.fixture
def without_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels compile to PTX without NVRTC, 90 MB to install.

    It would only be asked which capabilities it knows.
    """
    from evener.device.cuda import compile

    compile._import_compiler()
    monkeypatch.setattr("numba.cuda.cudadrv.nvrtc.get_supported_ccs", lambda: [(8, 0), (9, 0)])
    monkeypatch.setattr("numba.cuda.cuda_paths._get_nvrtc_path", lambda: None)


@pytest.fixture
def whole_crews(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stage of a kernel is worth all threads, and the leader waits for them.

    Graphs in tests are so small that helpers would have nothing to do.
    """
    from evener.device import crew, team

    monkeypatch.setattr(crew, "WORTH", 1)
    monkeypatch.setattr(crew, "LEAST_PATIENCE", 1_000_000)  # cycles: a third of a millisecond
    monkeypatch.setattr(team, "_learned", [-1, 0])
