"""How far the results of two candidates are apart, and how far they may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Final

from tuning_registry.model.audits import WORST

torch: Any = import_module("torch")

# Largest relative difference between correct results, by the least precise floating-point dtype among the tensors of a
# call: a few units in the last place of that dtype, since kernels round intermediate results to it. TF32 for float32.
TOLERANCES: Final = {
    "float64": 1e-8,
    "float32": 4e-3,
    "float16": 1e-2,
    "bfloat16": 6e-2,
    "float8_e4m3fn": 0.25,
    "float8_e4m3fnuz": 0.25,
    "float8_e5m2": 0.5,
    "float8_e5m2fnuz": 0.5,
}
_PARTS: Final = {"complex64": "float32", "complex128": "float64"}
_INTEGERS: Final = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
_LEAST: Final = 2.0**-64
_CHUNK: Final = 1 << 19  # elements compared at a time


def flat_dtype(dtype: Any) -> Any:
    """The dtype as which the memory of a tensor of this dtype is compared: of its floating-point numbers, or integers."""
    return float_dtype(dtype) or getattr(torch, _INTEGERS.get(dtype.itemsize, "uint8"))


def float_dtype(dtype: Any) -> Any:
    """The floating-point dtype of the numbers that a tensor of this dtype consists of; None if they are integers."""
    name = str(dtype).removeprefix("torch.")
    name = _PARTS.get(name, name)
    return getattr(torch, name) if name in TOLERANCES else None


def tolerance_of(dtypes: Iterable[Any]) -> float:
    """The tolerance of floating-point results of a call whose tensors have these dtypes. Integers have none."""
    floats = [float_dtype(dtype) for dtype in dtypes]
    return max((TOLERANCES[str(one).removeprefix("torch.")] for one in floats if one is not None), default=0.0)


# See docs/decisions.md, D92.
def relative_difference(mine: Any, other: Any, before: Callable[[int, int], Any]) -> float:
    """The largest relative difference of two results, from 0 to 2.

    The difference of two elements is relative to the larger one of them, or to the root mean square of all that was
    written, if that is larger still: a sum that nearly cancels has a large error. A number differs from NaN
    or infinity by 2.

    Args:
        mine: Elements of one result, in one dimension.
        other: Those of the other, with the same dtype (integers, or `float_dtype`).
        before: Returns the elements from one position to another as they were before the kernel ran.
    """
    starts = range(0, mine.numel(), _CHUNK)
    squares = torch.zeros((), dtype=torch.float64, device=mine.device)
    count = torch.zeros((), dtype=torch.int64, device=mine.device)
    for start in starts:
        a, b = mine[start : start + _CHUNK], other[start : start + _CHUNK]
        then = _bits(before(start, start + a.numel()))
        size = _size(a, b)
        written = ((_bits(a) != then) | (_bits(b) != then)) & torch.isfinite(size)
        squares += torch.where(written, size * size, 0.0).sum()
        count += written.sum()
    scale = (squares / count.clamp(min=1)).sqrt()
    worst = torch.zeros((), dtype=torch.float64, device=mine.device)
    for start in starts:
        a, b = mine[start : start + _CHUNK], other[start : start + _CHUNK]
        worst = torch.maximum(worst, _ratio(a, b, scale).max())
    return float(worst.item())


def _ratio(a: Any, b: Any, scale: Any) -> Any:
    wide, wide_too = a.to(torch.float64), b.to(torch.float64)
    equal = _bits(a) == _bits(b)
    ratio = (wide - wide_too).abs() / torch.maximum(_size(a, b), scale)
    if a.is_floating_point():
        equal |= (wide == wide_too) | (torch.isnan(wide) & torch.isnan(wide_too))
    else:
        ratio = ratio.clamp(min=_LEAST)  # of large integers that float64 cannot tell apart
    return torch.where(equal, 0.0, torch.nan_to_num(ratio, nan=WORST, posinf=WORST).clamp(max=WORST))


def _size(a: Any, b: Any) -> Any:
    return torch.maximum(a.to(torch.float64).abs(), b.to(torch.float64).abs())


def _bits(values: Any) -> Any:
    return values.view(getattr(torch, _INTEGERS[values.element_size()]))
