"""Recorded kernels and keys as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tuning_registry.model.packages import GROUP
from tuning_registry.rendering.base import Format, columns_in_use, render_columns, render_results
from tuning_registry.rendering.screen import Paint

if TYPE_CHECKING:  # importing it for real would load SQLAlchemy
    from tuning_registry.operations.reports.inventory import RecordedKernel, RecordedKey

_KERNEL: Final = ("arch", "kernel", "entries", "ranks", "votes", "disagreements")
_KEY: Final = ("arch", "kernel", "key", "votes", "winner_votes", "configs", *GROUP)
# Names and keys come last, since they can be long.
_KERNEL_SHOWN: Final = ("arch", "entries", "ranks", "votes", "disagreements", "kernel")
_KEY_SHOWN: Final = ("arch", "votes", "winner_votes", "configs", *GROUP, "kernel", "key")


def render_kernels(kernels: Sequence[RecordedKernel], style: Format) -> str:
    """Every kernel: its entries, the ranks that recorded it, and on how many entries they disagree."""
    return render_results(kernels, style, _KERNEL, _kernels_text)


def _kernels_text(kernels: Sequence[RecordedKernel]) -> str:
    rows = [
        {**kernel.to_dict(), "paint": {"disagreements": Paint.CAUTION} if kernel.disagreements else {}}
        for kernel in kernels
    ]
    return render_columns(rows, _KERNEL_SHOWN) if rows else ""


def render_keys(keys: Sequence[RecordedKey], style: Format) -> str:
    """Every key: its votes, those of the winner, and how many configs were chosen."""
    return render_results(keys, style, _KEY, _keys_text)


def _keys_text(keys: Sequence[RecordedKey]) -> str:
    rows = [{**key.to_dict(), "paint": {"configs": Paint.CAUTION} if key.configs > 1 else {}} for key in keys]
    in_use = {*columns_in_use(rows, _KEY_SHOWN, 4), "kernel", "key"}
    several = len({key.kernel for key in keys}) > 1  # else the command line names the kernel
    shown = [name for name in _KEY_SHOWN if name in in_use and (name != "kernel" or several)]
    return render_columns(rows, shown) if rows else ""
