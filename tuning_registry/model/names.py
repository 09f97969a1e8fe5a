"""Spellings of architectures, kernels and shape keys."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from tuning_registry.errors import FormatError, describe

MAX_RUN_BYTES = 1000  # length of a run's name: Postgres cannot index texts beyond 2,704 bytes
ANY_KEY = "*"  # in a table: every key of the kernel that has no entry
UNNAMED = "?"  # the name of a key value that has none (in Triton's cache files)

_KNOWN_ARCH = re.compile(r"sm[0-9]{1,5}|gfx[0-9a-f]{1,8}|unknown")
_NVIDIA = re.compile(
    r"sm_?([0-9]{1,5})[a-z]?|([0-9]{2,3})[af]?|(?:sm_?)?([0-9]{1,3})\.([0-9])|\(([0-9]{1,3}), ?([0-9])\)"
)
_NUMBER_LIKE = re.compile(
    r"[+-]?([0-9][0-9_]*(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|True|False|None|nan|[+-]?inf", re.IGNORECASE
)
_FLOAT = re.compile(r"-?[0-9]+(\.[0-9]+(e[+-]?[0-9]+)?|e[+-]?[0-9]+)")  # as str() writes a float
# A number or boolean inside str() of a tuple, where strings are quoted.
_TUPLE_ITEM = re.compile(r"(?<=[(, ])(True|False|-?[0-9][0-9.e+-]*)(?=[,)])")
_SPECIAL = re.compile(r"[\\|=]")
_ESCAPED_OR_BAR = re.compile(r"\\.|\|", re.DOTALL)


def check_text(text: object, path: tuple[str, ...] = ()) -> str:
    """Return `text` if both databases can hold it.

    Raises:
        FormatError: It is not a string, or it holds NUL or a lone surrogate.
    """
    if not isinstance(text, str):
        raise FormatError(f"expected a string, found {describe(text)}", path)
    if "\0" in text:
        raise FormatError("a NUL character, which databases cannot store", path)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise FormatError("a lone surrogate, which is not a character", path) from None
    return text


def normal_arch(arch: str | tuple[int, int]) -> str:
    """The one spelling of an architecture: `sm90`, `sm103`, `gfx942`.

    NVIDIA's are also written as `sm_90`, `SM90`, with the suffix of a compilation target (`sm_90a`, `sm_100f`), and as a
    compute capability: `10.0`, `100`, `(10, 0)` as text or as a tuple. AMD's runtime adds feature suffixes
    (`gfx942:sramecc+:xnack-`). Any other spelling is returned as given.
    """
    text = arch if isinstance(arch, str) else str(tuple(arch))
    base = text.strip().lower().partition(":")[0]
    nvidia = _NVIDIA.fullmatch(base)
    if nvidia:
        return "sm" + "".join(part for part in nvidia.groups() if part)
    return base if is_known_arch(base) else text


def is_known_arch(arch: str) -> bool:
    """Whether `arch` is spelled like an NVIDIA or AMD architecture, or is `unknown` (no GPU)."""
    return _KNOWN_ARCH.fullmatch(arch) is not None


def normal_distribution(name: str) -> str:
    """A distribution name as the package index compares it: `Mamba_SSM` becomes `mamba-ssm` (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def bare_name(kernel: str) -> str:
    """The function name of a qualified kernel name; a bare name is returned as it is."""
    return kernel.rpartition(".")[2]


def top_module(kernel: str) -> str:
    """The top-level module of a qualified kernel name; empty for a bare name."""
    head, dot, _ = kernel.partition(".")
    return head if dot else ""


def format_key(values: Iterable[tuple[str, object]], dtypes: Iterable[str]) -> str:
    r"""The shape key of a call: `D=128|NB=1|torch.bfloat16|torch.float32`.

    Fields, and why each is in the key: the autotuner's `keys` in its order (its author declared that the best
    config depends on them), then the dtype of every tensor argument in the order of the kernel's signature
    (Triton tunes again if one changes; in signature order, calls by position and by keyword give one key).

    Args:
        values: `(name, value)` of each of the autotuner's keys.
        dtypes: `str(dtype)` of each tensor argument.

    In a string value, `|`, `=` and `\` are escaped by a backslash. A string that looks like a number, boolean, None
    or tuple gets a backslash in front (`M=\1`), since Triton tells `"1"` and `1` apart. A string that spells a
    dtype has the dtype's text.
    """
    return "|".join([*(f"{name}={_value_text(value)}" for name, value in values), *dtypes])


def _value_text(value: object) -> str:
    if not isinstance(value, str):
        return str(value)
    escaped = _SPECIAL.sub(r"\\\g<0>", value)
    return "\\" + escaped if value.startswith("(") or _NUMBER_LIKE.fullmatch(value) else escaped


def split_key(key: str) -> list[str]:
    """The fields of a shape key, split at each bar that is not escaped."""
    if "\\" not in key:
        return key.split("|")
    bars = [match.start() for match in _ESCAPED_OR_BAR.finditer(key) if match[0] == "|"]
    return [key[start + 1 : end] for start, end in itertools.pairwise([-1, *bars, len(key)])]


def lookup_key(key: str) -> str:
    """The common spelling of equal keys: `M=True`, `M=1` and `M=1.0` all give `M=1`.

    Triton keeps its winners in a dict, where True, 1 and 1.0 are one key, so a rank records the spelling that it used
    first. Lookup, votes and agreement checks therefore compare this spelling.
    """
    if "True" not in key and "False" not in key and "." not in key and "e" not in key:
        return key
    fields = [name + equals + _number_text(value) for name, equals, value in (f.partition("=") for f in split_key(key))]
    return "|".join(fields)


def _number_text(value: str) -> str:
    if value.startswith("("):  # tuples are equal if their items are
        return _TUPLE_ITEM.sub(lambda match: _number_text(match[0]), value)
    if value in {"True", "False"}:
        return "1" if value == "True" else "0"
    if _FLOAT.fullmatch(value) and float(value).is_integer():
        return str(int(float(value)))  # an integral float equals the int of its value
    return value


def positional_key(key: str) -> str:
    """`key` without the names of its values, in lookup spelling: the form in which a `?=` key matches a live one."""
    return "|".join(UNNAMED + "=" + f.partition("=")[2] if "=" in f else f for f in split_key(lookup_key(key)))


def is_positional(key: str) -> bool:
    """Whether the values of `key` have no names."""
    return key.startswith(UNNAMED + "=")


def rank_ranges(ranks: Sequence[int]) -> str:
    """Ranks as people write them: `0-2,5`."""
    ordered = sorted(set(ranks))
    starts = [place for place, (one, two) in enumerate(itertools.pairwise(ordered), 1) if two != one + 1]
    firsts = ordered[:1] + [ordered[place] for place in starts]
    lasts = [ordered[place - 1] for place in starts] + ordered[-1:]
    return ",".join([str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True)])


def ranks_text(ranks: Sequence[int]) -> str:
    """Ranks with their noun: `rank 3`, `ranks 0-2,5`."""
    return f"{'ranks' if len(set(ranks)) > 1 else 'rank'} {rank_ranges(ranks)}"
