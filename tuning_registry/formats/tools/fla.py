"""Config folders of flash-linear-attention: one `{kernel}.json` for each kernel, `FLA_CONFIG_DIR`.

`{"triton_version": "3.6.0", "autotune_entries": {MD5: {"autotune_key": [128, "torch.bfloat16"], "config": {...},
"best_timing": [0.0051, 0.0050, 0.0053]}}, "default_config": {...}}`. Keys hold values without names, as in Triton's cache.
`default_config` serves keys that have no entry (`FLA_CACHE_MODE=full`), so it is the kernel's `*` entry.
Source: `fla/ops/utils/cache.py` and `scripts/extract_triton_autotune_cache.py` of fla-core 0.6.0.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import FormatError, SelectionError, describe
from tuning_registry.formats.plugin import ElectedEntry, Format, Outgoing, ToolFile, Written, choices_of
from tuning_registry.formats.recordings import read_timings
from tuning_registry.formats.stores import Place
from tuning_registry.formats.triton_cache import key_of_values
from tuning_registry.model.canonical import config_text, load_config
from tuning_registry.model.devices import UNKNOWN_ARCH, arch_of_device
from tuning_registry.model.kinds import Kind, kind_of
from tuning_registry.model.names import ANY_KEY, bare_name, check_text, split_key
from tuning_registry.model.origins import Origin
from tuning_registry.model.records import Header, Recording, Timing

_ENTRIES: Final = "autotune_entries"
_DEFAULT: Final = "default_config"
_VERSION: Final = "triton_version"
_WORDS: Final[Mapping[str, Any]] = {"True": True, "False": False, "None": None}
_NO_KEY: Final = "their keys have a value that is not a number, flag, string or tuple of these"


class FlaFolder(Format):
    """`FLA_CONFIG_DIR`: flat, or `configs/{GPU}/`."""

    name = "fla"
    title = "flash-linear-attention's config folders (FLA_CONFIG_DIR)"

    def recognizes(self, file: ToolFile) -> bool:
        """A kernel's file, by the fields that only these have."""
        document = file.document
        return isinstance(document, dict) and (_ENTRIES in document or {"kernel_name", _DEFAULT} <= document.keys())

    def group(self, files: Sequence[ToolFile]) -> Iterable[Sequence[ToolFile]]:
        """The files of a folder that are for one Triton version: a folder is one set of choices."""
        folders: dict[tuple[Place, str], list[ToolFile]] = {}
        for file in files:
            document = file.document
            version = document.get(_VERSION) if isinstance(document, dict) else None
            folders.setdefault((file.path.parent, repr(version)), []).append(file)
        return folders.values()

    def read(self, files: Sequence[ToolFile]) -> Iterable[Recording]:
        """One recording. Its rank is not stated; its device is, if the folder has the name of a GPU."""
        first, folder = files[0], files[0].path.resolve().parent.name
        version: str | None = None
        choices: dict[str, dict[str, str]] = {}
        timings: dict[str, dict[str, Sequence[Timing]]] = {}
        for file in files:
            kernel = file.path.name.removesuffix(".json")  # fla looks a kernel up by the name of its file
            try:
                document = _object(file.json(), "a kernel's configs")
                version = None if document.get(_VERSION) is None else check_text(document[_VERSION], (_VERSION,))
                choices[kernel], timings[kernel] = _read_kernel(document)
            except FormatError as fault:
                raise file.fault(fault.what, fault.path) from fault
        arch = arch_of_device(folder)
        yield choices_of(
            first,
            Origin(tool=self.name, file=folder),
            choices,
            header=Header(triton=version),
            arch=arch,
            device="" if arch == UNKNOWN_ARCH else folder,
            timings={kernel: timed for kernel, timed in timings.items() if timed},
        )

    def write(self, chosen: Outgoing) -> Written:
        """One file per kernel, which flash-linear-attention finds by the kernel's name without its module.

        Raises:
            SelectionError: The entries are for several GPUs or Triton versions, which one folder cannot hold.
        """
        for what, option, found in (
            ("architectures", "--arch", {entry.arch for entry in chosen.entries}),
            ("devices", "--device", {entry.device for entry in chosen.entries}),
            # The entry of a pin has no votes, so no version.
            (
                "Triton versions",
                "--triton",
                {entry.triton for entry in chosen.entries if entry.triton or entry.total_votes},
            ),
        ):
            if len(found) > 1:
                raise SelectionError(f"the entries are for {len(found)} {what}, but a folder of {self.name} holds "
                                     f"one; choose it with {option}")  # fmt: skip
        left_out: Counter[str] = Counter()
        kernels: dict[str, dict[str, list[ElectedEntry]]] = {}
        for entry in chosen.entries:
            if kind_of(entry.config) is Kind.TRITON:
                kernels.setdefault(bare_name(entry.kernel), {}).setdefault(entry.kernel, []).append(entry)
            else:
                left_out["their config is not a Triton config"] += 1
        files: dict[str, bytes] = {}
        for name, modules in sorted(kernels.items()):
            if len(modules) > 1:
                left_out["kernels of several modules have the same name"] += sum(map(len, modules.values()))
                continue
            document, unwritable = _kernel_document(name, *modules.values())
            left_out[_NO_KEY] += unwritable
            files[f"{name}.json"] = (json.dumps(document, indent=2) + "\n").encode()
        return Written(files=files, left_out=+left_out)


def _kernel_document(name: str, entries: Sequence[ElectedEntry]) -> tuple[dict[str, Any], int]:
    """The content of a kernel's file, and how many entries it cannot hold."""
    found: dict[str, Any] = {}
    version = next((entry.triton for entry in entries if entry.triton), None)
    document = {"kernel_name": name, _VERSION: version, _ENTRIES: found}
    unwritable = 0
    for entry in entries:
        config = {**load_config(entry.config), "pre_hook": None}
        if entry.key == ANY_KEY:
            document[_DEFAULT] = config
            continue
        try:
            values = [_value(part.partition("=")[2] if "=" in part else part) for part in split_key(entry.key)]
        except ValueError:
            unwritable += 1
            continue
        # fla finds an entry by this digest of its key.
        text = json.dumps(values, separators=(",", ":"), sort_keys=True)
        found[hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()] = {
            "autotune_key": values,
            "config": config,
            **({"best_timing": list(entry.times_ms)} if entry.times_ms else {}),
        }
    return document, unwritable


def _value(text: str) -> Any:
    """A value of a shape key, as fla's JSON has it.

    Raises:
        ValueError: JSON has no such value.
    """
    if "\\" in text:
        return re.sub(r"\\(.)", r"\1", text)
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith("("):
        return _array(text)
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        raise ValueError(text)
    return number if re.search("[.eE]", text) else int(text)


def _array(text: str) -> list[Any]:
    try:
        found = ast.literal_eval(text)  # Python's own text of a tuple of plain values
        return json.loads(json.dumps(found, allow_nan=False))  # type: ignore[no-any-return]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(text) from error


def _read_kernel(document: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Sequence[Timing]]]:
    """The chosen configs and the winners' times of one kernel, by key."""
    chosen: dict[str, str] = {}
    timed: dict[str, Sequence[Timing]] = {}
    for name, value in _object(document.get(_ENTRIES), "an object of entries", _ENTRIES).items():
        entry = _object(value, "an entry with autotune_key and config", _ENTRIES, name)
        try:
            key, config = _key(entry), _config(entry.get("config"), "config")
            if key in chosen:
                raise FormatError("another entry has the same key", ("autotune_key",))
            chosen[key] = config
            if entry.get("best_timing") is not None:
                timed[key] = list(read_timings([[entry["config"], entry["best_timing"]]]))
        except FormatError as fault:
            raise fault.under(_ENTRIES, name) from fault
    if document.get(_DEFAULT) is not None:
        chosen[ANY_KEY] = _config(document[_DEFAULT], _DEFAULT)
    return chosen, timed


def _key(entry: Mapping[str, Any]) -> str:
    values = entry.get("autotune_key")
    if not isinstance(values, list):
        raise FormatError(f"expected an array of values and dtypes, found {describe(values)}", ("autotune_key",))
    return key_of_values(values)


def _config(value: object, name: str) -> str:
    try:
        return config_text(value)
    except FormatError as fault:
        raise fault.under(name) from fault


def _object(value: object, expected: str, *path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"expected {expected}, found {describe(value)}", path)
    return value
