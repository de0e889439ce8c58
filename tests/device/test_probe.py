"""What `evener.device.probe` finds, with a real driver, without one, and with drivers made up."""

import ctypes
import dataclasses

import pytest

from evener.device import probe
from evener.errors import EvenerError


class FakeDriver:
    """A CUDA driver with two GPUs, and faults where a test wants them."""

    def __init__(self, names=("NVIDIA Test", "NVIDIA Other"), init=0, broken=()):
        self.names = names
        self.init = init
        self.broken = broken

    def cuInit(self, flags):
        return self.init

    def cuDeviceGetCount(self, count):
        count._obj.value = len(self.names)
        return 0

    def cuDeviceGet(self, device, ordinal):
        device._obj.value = ordinal
        return 719 if ordinal in self.broken else 0

    def cuDeviceGetName(self, name, length, device):
        name.value = self.names[device.value].encode()
        return 0

    def cuDeviceTotalMem_v2(self, memory, device):
        memory._obj.value = 80 << 30
        return 0

    def cuDeviceGetAttribute(self, value, which, device):
        value._obj.value = {75: 9, 76: 0, 16: 132}[which]
        return 0

    def cuGetErrorName(self, status, name):
        name._obj.value = b"CUDA_ERROR_TEST" if status != 1 else None
        return 0


@pytest.fixture
def driver(monkeypatch):
    def install(fake):
        def load(name):
            if fake is None:
                raise OSError("no such library")
            return fake

        monkeypatch.setattr(ctypes, "CDLL", load)

    return install


def test_interpreter_and_cpu_are_always_there():
    python, cpu, *gpus = probe.list_devices()
    assert (python.name, python.kind) == ("python", "python")
    assert (cpu.name, cpu.kind) == ("cpu", "cpu")
    assert cpu.available
    assert cpu.cores >= 1
    assert 0 < cpu.memory_available_bytes <= cpu.memory_bytes
    assert bool(gpus) == (probe.why_no_cuda() is None)


def test_device_info_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        probe.list_devices()[0].name = "other"


def test_threads_variable(monkeypatch):
    monkeypatch.setenv("EVENER_THREADS", "3")
    cpu = probe.list_devices()[1]
    assert cpu.cores == 3
    assert "EVENER_THREADS" in cpu.description
    monkeypatch.setenv("EVENER_THREADS", "many")
    with pytest.raises(EvenerError, match="EVENER_THREADS"):
        probe.list_devices()


def test_gpus_of_the_driver(driver):
    driver(FakeDriver())
    gpus = probe.list_devices()[2:]
    assert [gpu.name for gpu in gpus] == ["cuda:0", "cuda:1"]
    assert [gpu.description.split(",")[0] for gpu in gpus] == ["NVIDIA Test", "NVIDIA Other"]
    assert {(gpu.compute_capability, gpu.cores, gpu.memory_bytes) for gpu in gpus} == {
        ("9.0", 132, 80 << 30)
    }
    assert all(gpu.available for gpu in gpus)
    assert all("runs programs" in gpu.note for gpu in gpus)
    assert probe.why_no_cuda() is None


def test_a_gpu_that_fails_is_listed_as_not_available(driver):
    driver(FakeDriver(broken=(1,)))
    good, bad = probe.list_devices()[2:]
    assert good.available
    assert not bad.available
    assert "CUDA_ERROR_TEST" in bad.note


@pytest.mark.parametrize(
    ("fake", "reason"),
    [
        (None, "no NVIDIA driver"),
        (FakeDriver(names=()), "finds none"),
        (FakeDriver(init=100), "finds none"),
        (FakeDriver(init=803), "CUDA_ERROR_TEST"),
        (FakeDriver(init=1), "error 1"),
    ],
)
def test_no_gpu_says_why(driver, fake, reason):
    driver(fake)
    assert len(probe.list_devices()) == 2
    assert reason in probe.why_no_cuda()


def test_hidden_gpus_name_the_variable(driver, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    driver(FakeDriver(init=100))
    assert "CUDA_VISIBLE_DEVICES" in probe.why_no_cuda()
