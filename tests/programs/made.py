"""Programs that are made of a few members, to be looked at or refused."""

import numpy as np

from evener.programs import VERTEX, Field, Param, Program, Scalar, functor
from evener.programs.stages import (
    advance,
)


@functor
def always(src, dst, edge, s):
    """Along an edge."""
    return True


@functor
def keep(v, s):
    """As a filter."""
    return True


@functor
def nothing(v, s):
    """As a compute."""


@functor
def stop(s):
    """As an until."""
    return True


@functor
def one(src, dst, edge, s):
    """As what a gather collects."""
    return 1


@functor
def accept(v, total, s):
    """As what a gather applies."""
    return True


def make(loop, **members):
    """A program with these members, to which the functors above may belong."""
    known = {f.name: f for f in (always, keep, nothing, stop, one, accept)}
    return type(Program)("Made", (Program,), {**known, **members, "loop": loop})


def with_fields(f, stage=advance, **stage_options):
    """A program with fields of many kinds, whose loop is one stage with this functor."""
    low = Field(np.int32, merge="min")
    members = {
        "low": low,
        "high": Field(np.int32, merge="max"),
        "total": Field(np.float64, merge="sum"),
        "mine": Field(np.int64),
        "other": Field(np.int64),
        "follower": Field(VERTEX, fill=-1, follows=low),
        "shared": Field(VERTEX, merge="min", replicated=True),
        "rate": Param(np.float64, 0.5),
        "found": Scalar(np.int64, "max"),
        f.name: f,
    }
    return make((stage(f, **stage_options),), **members)
