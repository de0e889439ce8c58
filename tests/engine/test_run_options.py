"""`run`: devices by name, from the environment and by choice, options, and what gives way."""

import importlib.util
import re

import pytest

import evener as ev
from evener.engine import devices as devices_module
from evener.engine.codegen.passes import NotLoweredError
from evener.engine.devices import Device, choose_devices
from evener.engine.run import run
from evener.errors import DeviceError, EvenerError, ProgramError
from graphs import DEGENERATE
from programs.searches import Search
from programs.stages import Labels

STRINGS = DEGENERATE["strings"]()  # b to c to a


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("python+cuda:0", "python combines with CPUs, not with GPUs"),
        ("cuda:x", "there is no device 'cuda:x'"),
        ("cpu+python+gpu", "there is no device 'gpu'"),
        ("gpu", "there is no device 'gpu'"),
        ("cpu:0", "there is no device 'cpu:0'"),
        ("cpu:x", "there is no device 'cpu:x'"),
        ("python:2", "there is no device 'python:2'"),
        ("auto+cpu", "there is no device 'auto'"),
        ("", "there is no device ''"),
        (3, "device is 3; it must be a name"),
    ],
)
def test_devices_that_are_not_there(name, message):
    with pytest.raises(DeviceError, match=message):
        run(Search, STRINGS, source="a", device=name)


def test_device_from_the_environment(monkeypatch):
    monkeypatch.setenv("EVENER_DEVICE", "python+python")
    r = run(Search, STRINGS, source="a")
    assert r.stats["device"] == "python+python"
    assert "EVENER_DEVICE says so" in r.explain()
    monkeypatch.setenv("EVENER_DEVICE", "abacus")
    with pytest.raises(DeviceError, match="there is no device 'abacus'"):
        run(Search, STRINGS, source="a")


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
@pytest.mark.parametrize(
    ("missing", "message"),
    [(("numba_cuda",), "numba-cuda is not installed; .*cu12"),
     (("cupy",), "CuPy is not installed; .*cu13"),
     (("driver", "cupy", "numba_cuda"), "No CUDA GPU: the driver is away")],
    ids=["no compiler", "no CuPy", "no driver"],
)  # fmt: skip
def test_a_gpu_that_cannot_be_used(monkeypatch, name, missing, message):
    driver = "No CUDA GPU: the driver is away." if "driver" in missing else None
    find_spec = importlib.util.find_spec
    there = ("numba_cuda", "cupy")

    def found(module, *rest):
        if module in there:
            return None if module in missing else module
        return find_spec(module, *rest)

    monkeypatch.setattr("evener.device.cuda.card.kernel_loaded", [])
    monkeypatch.setattr("importlib.util.find_spec", found)
    monkeypatch.setattr("evener.device.cuda.card.why_no_cuda", lambda: driver)
    with pytest.raises(DeviceError, match=f"device '{name}': {message}"):
        run(Search, STRINGS, source="a", device=name)
    monkeypatch.delenv("EVENER_DEVICE", raising=False)
    devices, why = choose_devices("auto")
    assert devices == [Device("cpu")]
    assert re.search(message, why)


def test_auto_takes_a_gpu(monkeypatch):
    monkeypatch.delenv("EVENER_DEVICE", raising=False)
    monkeypatch.setattr(devices_module, "why_not", lambda: None)
    monkeypatch.setattr(devices_module, "require", lambda ordinal: None)
    assert choose_devices("auto") == ([Device("cuda")], "there is a GPU")
    assert choose_devices("cuda:1")[0] == [Device("cuda", 1)]


def test_explain_says_what_gave_way(monkeypatch):
    def refuse(*_):
        raise NotLoweredError("Search has something.")

    monkeypatch.delenv("EVENER_DEVICE", raising=False)
    monkeypatch.setattr(devices_module, "why_not", lambda: "there is none.")
    monkeypatch.setattr("evener.engine.targets.cpu.execute", refuse)
    told = run(Search, STRINGS, source="a").explain()
    assert "ran on python: cpu cannot run it." in told
    assert "Search has something." in told
    assert "fastest" not in told


def test_a_set_of_the_environment_gives_way_to_nothing(monkeypatch):
    def refuse(*_):
        raise NotLoweredError("Search has something.")

    monkeypatch.setenv("EVENER_DEVICE", "cpu:1+cpu:1")
    monkeypatch.setattr("evener.engine.targets.parts_cpu.run_parts", refuse)
    with pytest.raises(NotLoweredError, match="has something"):
        run(Search, STRINGS, source="a")


def test_auto_without_a_gpu(monkeypatch):
    monkeypatch.delenv("EVENER_DEVICE", raising=False)
    monkeypatch.setattr(devices_module, "why_not", lambda: "there is none.")
    assert choose_devices("auto")[0] == [Device("cpu")]
    assert choose_devices("cpu:2")[0] == [Device("cpu", 2)]
    assert str(Device("cpu", 2)) == "cpu:2"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"schedule": "merge_path"}, "schedule is for a GPU; leave it out"),
        ({"memory_limit": 10}, r"needs about .* bytes\) on .*, and memory_limit allows 10 B"),
        ({"preallocate": 0}, "preallocate is 0; it must be 'auto', True, False, or a number above"),
        ({"preallocate": "all"}, "preallocate is 'all'; it must be"),
        ({"device_arrays": True}, "device_arrays is for a GPU; leave it out"),
        ({"exchange": "all"}, "exchange='all' needs a device set"),
        ({"direction": "up"}, "direction is 'up'; it must be one of"),
        ({"partition": "random"}, "partition='random' needs a device set"),
        ({"partition": "rand", "device": "python+python"}, "there is no partitioner 'rand'"),
    ],
)
def test_options_that_nothing_implements(option, message):
    with pytest.raises(EvenerError, match=message):
        run(Search, STRINGS, source="a", **{"device": "python", **option})


def test_defaults_may_be_given():
    r = run(
        Search, STRINGS, source="b", device="python", partition="auto", exchange="refined",
        schedule="auto", memory_limit=None, preallocate="auto", device_arrays=False,
    )  # fmt: skip
    assert r["a"] == 2


def test_wrong_parameters():
    with pytest.raises(ProgramError, match="has no parameter 'sorce'"):
        run(Search, STRINGS, sorce="a", source="a", device="python")
    with pytest.raises(
        ProgramError, match=r"'exchanged' \(did you mean 'exchange'\?\); it takes so"
    ):
        run(Search, STRINGS, source="a", exchanged="all", device="python")


def test_empty_graph():
    r = run(Labels, ev.Graph.from_edges([], []), device="python")
    assert r.label.tolist() == []
    assert r.to_polars().height == r.to_pandas().shape[0] == r.top().height == 0
