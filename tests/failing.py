"""Parts that fail where a test wants them to."""

import re

from evener.engine.reference.compiled_stage import CompiledPart
from evener.engine.targets import parts_cpu
from evener.errors import DeviceError


def fail_at(monkeypatch, part, superstep):
    """Have a part of compiled CPUs give up in a superstep: its kernel returns, unlike the others'."""
    lower = parts_cpu.lower_parts_cpu

    def lowered(*args, **options):
        kernel = lower(*args, **options)
        kernel.text = re.sub(
            r"(?m)^( *)note\(team, trace, row, (\w+),.*$",
            rf"\g<0>\n\1if world.part == {part} and \2 == {superstep}: return -1",
            kernel.text,
        )
        return kernel

    monkeypatch.setattr(parts_cpu, "lower_parts_cpu", lowered)


def fail_beside_python(monkeypatch, part, superstep):
    """Have a compiled part among interpreted ones give up in a superstep."""
    run = CompiledPart.run

    def failing(self, *args, **options):
        if (self.number, self.s.superstep) == (part, superstep):
            raise DeviceError(f"partition {part} on cpu:{self.threads} failed, so the run failed.")
        return run(self, *args, **options)

    monkeypatch.setattr(CompiledPart, "run", failing)
