"""Naming a call: its kernel, its arguments in signature order, its shape key."""

from __future__ import annotations

import fnmatch
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from tuning_registry.errors import FormatError
from tuning_registry.model.canonical import text_digest
from tuning_registry.model.names import check_text, format_key

_PLAIN: Final = frozenset({bool, int, float, str, type(None)})
_SCALARS: Final = frozenset(
    {"number", "bool", "bool_", "character"}
)  # of NumPy; `void` is left out because it is not hashable
# For instance an IntEnum or a str subclass: it equals its base value, so both are one key, whatever str() returns.
_BASES: Final[Mapping[type, Callable[[Any], object]]] = {int: int.__int__, float: float.__float__, str: str.__str__}


class Call:
    """One call of an autotuner. Its kernel's name and its arguments are worked out once, when first asked for.

    Attributes:
        autotuner: The live autotuner.
        args: Positional arguments, as passed.
        kwargs: Keyword arguments, as passed.
    """

    __slots__ = ("_arguments", "_kernel", "args", "autotuner", "kwargs")

    def __init__(self, autotuner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.autotuner = autotuner
        self.args = args
        self.kwargs = kwargs
        self._kernel: str | None = None
        self._arguments: dict[str, Any] | None = None

    @property
    def kernel(self) -> str:
        """The kernel's qualified name (`kernel_name`)."""
        kernel = self._kernel
        if kernel is None:
            kernel = self._kernel = kernel_name(self.autotuner)
        return kernel

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name, in signature order (`call_arguments`)."""
        arguments = self._arguments
        if arguments is None:
            arguments = self._arguments = call_arguments(self.autotuner.arg_names, self.args, self.kwargs)
        return arguments

    @property
    def key(self) -> str:
        """The shape key (`shape_key`); raises FormatError if a key value has no stable text."""
        return shape_key(self.autotuner.keys, self.arguments)

    def other_keys(self, key: str) -> list[str]:
        """Spellings other than `key` in which other tools write the key of this call (`foreign_keys`)."""
        found = foreign_keys(self.autotuner.keys, self.autotuner.arg_names, self.args, self.kwargs)
        return [other for other in found if other != key]

    @property
    def has_tensor_key(self) -> bool:
        """Whether one of the key values is a tensor, or another object with a dtype that equals only itself."""
        return has_tensor_key(self.autotuner.keys, self.arguments)


def kernel_name(autotuner: Any) -> str:
    """`module.name` of the undecorated function under any stack of decorators."""
    function = getattr(autotuner, "base_fn", autotuner)
    while hasattr(function, "fn"):
        function = function.fn
    return f"{_names.of(str(function.__module__))}.{function.__name__}"


def rename_modules(rules: Iterable[str]) -> None:
    """Name the modules of kernels by `PATTERN=NAME` rules from now on; the first that matches counts."""
    global _names  # noqa: PLW0603 - names are a fact of the process, as autotuners are
    _names = _ModuleNames(rules)


class _ModuleNames:
    def __init__(self, rules: Iterable[str] = ()) -> None:
        self._rules = [(pattern, name) for pattern, _, name in (rule.partition("=") for rule in rules)]
        self._known: dict[str, str] = {}

    def of(self, module: str) -> str:
        """The name that a module goes by."""
        if not self._rules:
            return module
        if module not in self._known:
            matching = (name for pattern, name in self._rules if fnmatch.fnmatchcase(module, pattern))
            self._known[module] = next(matching, module)
        return self._known[module]


_names = _ModuleNames()


def source_hash(autotuner: Any) -> str | None:
    """SHA-256 of the source of the kernel's function, from `def` on; None if there is no source."""
    # Of a kernel in generated code. Its dict is read, since a subclass of Triton's may answer for any attribute.
    stated = getattr(autotuner, "__dict__", {}).get("source_hash")
    if isinstance(stated, str):
        return stated
    function = getattr(autotuner, "base_fn", autotuner)
    source = None
    while source is None:
        source = getattr(function, "src", None)  # of a JITFunction
        if source is None and not hasattr(function, "fn"):
            break
        function = function.fn if source is None else function
    if not isinstance(source, str):
        try:
            source = textwrap.dedent(inspect.getsource(function))
        except (OSError, TypeError):
            return None
    start = re.search(r"^def\s", source, re.MULTILINE)
    return text_digest(source[start.start() :] if start else source)


def is_interpreted(autotuner: Any) -> bool:
    """Whether the kernel runs in Triton's interpreter, where timings are meaningless."""
    function = autotuner
    while hasattr(function, "fn"):
        if type(function).__name__ == "InterpretedFunction":
            return True
        function = function.fn
    return False


def call_arguments(arg_names: Sequence[str], args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Any]:
    """The kernel's arguments by name in the order of its signature, however they were passed."""
    given = {**dict(zip(arg_names, args, strict=False)), **kwargs}
    return {name: given[name] for name in arg_names if name in given}


def shape_key(keys: Iterable[str], arguments: Mapping[str, Any]) -> str:
    """The text of the shape key (`names.format_key`) of a call.

    Values that are equal as dict keys, as in Triton's cache of winners, have the same text or the same
    `names.lookup_key`. Values that differ have different texts, except a dtype and a string that spells it.

    Args:
        keys: The autotuner's `keys`; those that were not passed are left out, as in Triton.
        arguments: From `call_arguments`, so that dtypes are in signature order.

    Raises:
        FormatError: A key value has no stable text; `path` names the argument. Tensors are never converted to
            text, because that reads device memory, which is slow and illegal during graph capture.
    """
    values = [(name, _plain(name, arguments[name])) for name in keys if name in arguments]
    dtypes = [str(value.dtype) for value in arguments.values() if type(value) not in _PLAIN and hasattr(value, "dtype")]
    return check_text(format_key(values, dtypes))


def foreign_keys(
    keys: Sequence[str], arg_names: Sequence[str], args: Sequence[object], kwargs: Mapping[str, object]
) -> list[str]:
    """The keys that tools like Megatron's write for a call whose values all have a stable text.

    They list dtypes in the order of the call, positional arguments first, and write values with `str()`: a string
    without escapes, a constexpr as `constexpr[16]` or as its value. Nothing but plain values is turned into text.
    """
    named = {**dict(zip(arg_names, args, strict=False)), **kwargs}
    called = {name: value for name, value in named.items() if name in set(arg_names)}
    signature = {name: called[name] for name in arg_names if name in called}
    spellings = (_plain, _raw, _raw_constexpr)
    found: dict[str, None] = {}
    for arguments in (called,) if list(called) == list(signature) else (called, signature):
        dtypes = [str(v.dtype) for v in arguments.values() if type(v) not in _PLAIN and hasattr(v, "dtype")]
        for spell in spellings:
            values = [(name, spell(name, called[name])) for name in keys if name in called]
            found[format_key(values, dtypes)] = None
    return list(found)


def has_tensor_key(keys: Iterable[str], arguments: Mapping[str, Any]) -> bool:
    """Whether one of the key values is a tensor, or another object with a dtype that equals only itself."""
    return any(
        type(arguments[name]) not in _PLAIN and hasattr(arguments[name], "dtype") and not _is_scalar(arguments[name])
        for name in keys
        if name in arguments
    )


def _is_scalar(value: Any) -> bool:
    """Whether a value is a NumPy scalar, which is hashed and compared as the number that it holds."""
    return any(kind.__name__ in _SCALARS and kind.__module__ == "numpy" for kind in type(value).__mro__)


class _Text:
    """A dtype's text, which is not quoted inside the text of a tuple."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _plain(name: str, value: Any) -> object:
    """`value` in the form that `names.format_key` formats: numbers, strings, None, dtypes, and tuples of these."""
    if type(value) in _PLAIN:
        return value + 0.0 if type(value) is float else value  # -0.0 equals 0.0
    if hasattr(value, "dtype"):
        held = value.item() if _is_scalar(value) else value
        if type(held) in _PLAIN:
            return _plain(name, held)
        raise FormatError("a tensor, or another object with a dtype, has no stable text", (name,))
    kind = type(value)
    if kind.__name__ == "constexpr" and hasattr(value, "value"):
        return _plain(name, value.value)
    if kind.__name__ == "dtype" and kind.__module__.partition(".")[0] in {"torch", "triton", "numpy"}:
        return _Text(str(value))
    if isinstance(value, tuple | list):
        return tuple(_one_spelling(_plain(name, item)) for item in value)
    for base, plain in _BASES.items():
        if isinstance(value, base):
            return plain(value)
    raise FormatError(f"a {kind.__name__} has no stable text", (name,))


def _raw(name: str, value: Any) -> object:
    """`_plain`, except that strings are written without escapes."""
    plain = _plain(name, value)
    return _Text(plain) if isinstance(plain, str) else plain


def _raw_constexpr(name: str, value: Any) -> object:
    """`_raw`, except that a constexpr is written as `str()` writes it."""
    plain = _raw(name, value)
    return _Text(f"constexpr[{plain}]") if type(value).__name__ == "constexpr" else plain


def _one_spelling(value: object) -> object:
    """Inside a tuple, write True, 1 and 1.0 as 1: in a dict, such as Triton's cache, such tuples are one key."""
    is_integral = isinstance(value, bool) or (isinstance(value, float) and value.is_integer())
    return int(value) if is_integral else value  # type: ignore[call-overload]
