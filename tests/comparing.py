"""Whether two runs of a program found the same."""

import contextlib

import numpy as np
import pytest

import evener as ev
from evener.engine.job import set_up
from evener.engine.reference.loop import interpret
from evener.programs.fields import HIDDEN

ANY_VALUE = ("parent", "some", "rounds", "replayed")  # may differ, and are checked apart


@contextlib.contextmanager
def case(*names):
    """Name the case in what fails within a loop over many."""
    try:
        yield
    except BaseException as error:
        error.add_note("case: " + ", ".join(getattr(one, "__name__", str(one)) for one in names))
        raise


def interpreted(program, graph, direction="auto", **parameters):
    """The job of a program after the interpreter ran it."""
    job = set_up(program, graph, parameters)
    interpret(job, direction)
    return job


def compare(program, have, want, rtol=1e-9, atol=1e-12):
    """Check all fields of two results, but for those where one of several values is right."""
    for field, declared in program.declaration.fields.items():
        if field.startswith(HIDDEN):
            continue  # no result shows it
        several = declared.dtype is ev.VERTEX and declared.merge in (None, "any")
        if field in ANY_VALUE or several or declared.merge == "any":
            continue
        np.testing.assert_allclose(
            getattr(have, field), getattr(want, field), rtol=rtol, atol=atol, err_msg=field
        )


def assert_job(have, want, *, rtol=1e-5, any_rounds=True):
    """Check the fields of a job that ran elsewhere against those of an interpreted one."""
    for name, array in want.fields.items():
        declared = want.declaration.fields[name]
        if declared.merge == "any" or (declared.dtype is ev.VERTEX and declared.merge is None):
            continue  # any of several is right
        if name == "rounds" and any_rounds:
            continue  # how many it takes depends on who comes first
        np.testing.assert_allclose(have.fields[name], array, rtol=rtol, atol=1e-9, err_msg=name)


def assert_fields(found, expected, names):
    """Check some fields of two results."""
    for name in names:
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-9, err_msg=name
        )


def assert_same_jobs(one, many, leave_out=ANY_VALUE):
    """Check the fields and scalars of two jobs that ran."""
    for name, expected in one.fields.items():
        if name not in leave_out:
            if expected.dtype.kind == "f":
                # Scalars are summed part by part, so the last bits may differ.
                np.testing.assert_allclose(
                    many.fields[name], expected, rtol=1e-12, atol=1e-15, err_msg=name
                )
            else:
                np.testing.assert_array_equal(many.fields[name], expected, err_msg=name)
    for name, value in one.scalars.items():
        assert many.scalars[name] == pytest.approx(value, rel=1e-12, abs=1e-15)
