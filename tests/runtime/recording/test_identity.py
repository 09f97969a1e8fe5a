"""Names: of runs, ranks, hosts, devices, kernels and keys."""

import enum
import importlib.metadata
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuning_registry.errors import FormatError, PolicyError
from tuning_registry.model.names import lookup_key, split_key
from tuning_registry.runtime.guard import fault_counts
from tuning_registry.runtime.job import place
from tuning_registry.runtime.job.devices import Device, Devices
from tuning_registry.runtime.job.place import Place, current_place, file_name_part, new_run, resolve_run, stated_run
from tuning_registry.runtime.recording.owners import Owners
from tuning_registry.runtime.triton.keys import call_arguments, kernel_name, shape_key


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({}, Place(0, 1, certain=False)),
        ({"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, Place(3, 8)),
        ({"SLURM_PROCID": "9", "SLURM_NTASKS": "16"}, Place(9, 16)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, Place(2, 4)),
        ({"PMI_RANK": "2"}, Place(2, None)),
        ({"RANK": "x", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, Place(1, 2)),
        ({"RANK": "8", "WORLD_SIZE": "8"}, Place(8, None)),
        ({"LOCAL_RANK": "1"}, Place(0, 1, certain=False)),
    ],
)
def test_the_rank_comes_from_the_launcher(environ: Any, place: Any) -> None:
    assert current_place(environ) == place


def test_the_rank_comes_from_the_process_group_first(monkeypatch: pytest.MonkeyPatch) -> None:
    group = types.SimpleNamespace(get_rank=lambda: 5, get_world_size=lambda: 6)
    monkeypatch.setattr(place, "process_group", lambda: group)
    assert current_place({"RANK": "1", "WORLD_SIZE": "2"}) == Place(5, 6)


@pytest.mark.parametrize(
    ("policy", "environ", "run"),
    [
        (None, {}, None),
        ("mine", {"TUNING_REGISTRY_RUN": "theirs", "SLURM_JOB_ID": "7"}, "mine"),
        (None, {"TUNING_REGISTRY_RUN": " theirs ", "SLURM_JOB_ID": "7"}, "theirs"),
        (None, {"SLURM_JOB_ID": "7", "TORCHELASTIC_RUN_ID": "abc"}, "7.abc"),
        (None, {"SLURM_JOB_ID": "7", "TORCHELASTIC_RUN_ID": "none"}, "7"),
        (None, {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}, "7"),
        (None, {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "3"}, "7.step3"),
        (None, {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "4294967291"}, "7"),  # the batch script
        (
            None,
            {
                "SLURM_JOB_ID": "7",
                "SLURM_STEP_ID": "1",
                "SLURM_RESTART_COUNT": "2",
                "TORCHELASTIC_RUN_ID": "abc",
                "TORCHELASTIC_RESTART_COUNT": "4",
            },
            "7.2.step1.abc.4",
        ),
        (None, {"SLURM_JOB_ID": "7", "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "1"}, "7.restart1"),
        (None, {"SLURM_STEP_ID": "1"}, None),
        (None, {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "2"}, "7.2"),
        (None, {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "0"}, "7"),
        (None, {"TORCHELASTIC_RUN_ID": "abc", "TORCHELASTIC_RESTART_COUNT": "1"}, "abc.1"),
        (None, {"TORCHELASTIC_RUN_ID": "none"}, None),
    ],
)
def test_the_run_is_named_by_the_first_that_states_it(policy: Any, environ: Any, run: Any) -> None:
    assert stated_run(policy, environ) == run


def test_a_job_of_one_process_names_itself_and_never_the_same_twice() -> None:
    assert resolve_run(None) != resolve_run(None)
    assert new_run().isascii()


def test_a_store_that_fails_is_a_fault_and_then_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(place, "_job_store", lambda: types.SimpleNamespace(compare_set=lambda *a: 1 / 0))
    with pytest.raises(PolicyError, match="TUNING_REGISTRY_RUN"):
        resolve_run(None)
    assert fault_counts() == {"agreeing on a run name": 1}


@pytest.mark.parametrize(
    ("text", "part"), [("a/b c", "a-b-c"), ("../..", ""), ("run.1", "run-1"), ("é:x", "x"), ("a" * 200, "a" * 80)]
)
def test_file_name_parts_are_safe(text: Any, part: Any) -> None:
    assert file_name_part(text) == part


def properties(major: Any, minor: Any, name: Any = "GPU", count: Any = 132, gcn: Any = None) -> Any:
    found = types.SimpleNamespace(major=major, minor=minor, name=name, multi_processor_count=count)
    if gcn is not None:
        found.gcnArchName = gcn
    return found


def fake_torch(monkeypatch: pytest.MonkeyPatch, devices: Any, current: Any = 0) -> None:
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(
        is_available=lambda: bool(devices), device_count=lambda: len(devices), current_device=lambda: current,
        get_device_properties=devices.__getitem__))  # fmt: skip
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)


@pytest.mark.parametrize(
    ("found", "arch"),
    [(properties(9, 0, "NVIDIA H200"), "sm90"), (properties(10, 3), "sm103"), (properties(12, 0), "sm120"),
     (properties(9, 4, "AMD Instinct MI300X", 304, "gfx942:sramecc+:xnack-"), "gfx942"), (properties(9, 0, gcn=""), "sm90")],
)  # fmt: skip
def test_arch_is_the_compute_capability_or_the_amd_target(
    monkeypatch: pytest.MonkeyPatch, found: Any, arch: Any
) -> None:
    fake_torch(monkeypatch, [found, found])
    devices = Devices()
    assert devices.current() == Device(arch, found.name, found.multi_processor_count)
    assert not devices.mixed
    assert Devices("sm103").current() == Device("sm103", found.name, found.multi_processor_count)


def test_devices_of_several_architectures_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_torch(monkeypatch, [properties(9, 0), properties(10, 0)], current=1)
    devices = Devices()
    assert devices.mixed
    assert devices.current().arch == "sm100"
    assert not Devices("sm90").mixed


def test_without_torch_triton_is_asked_and_without_a_gpu_arch_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_torch(monkeypatch, [])

    def no_driver() -> None:
        raise RuntimeError("0 active drivers")

    assert Devices(None, no_driver).current() == Device("unknown")
    assert Devices().current() == Device("unknown")
    for backend, arch, name in (("cuda", 90, "sm90"), ("hip", "gfx942", "gfx942")):
        target = types.SimpleNamespace(backend=backend, arch=arch)
        assert Devices(None, [target].pop).current().arch == name


def test_while_torch_is_being_imported_nothing_is_asked_of_it_and_nothing_is_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    properties = types.SimpleNamespace(major=9, minor=0, name="H200", multi_processor_count=132)
    cuda = types.SimpleNamespace(is_available=lambda: True, current_device=int, device_count=lambda: 1,
                                 get_device_properties=lambda index: properties)  # fmt: skip
    loading = types.SimpleNamespace(__spec__=types.SimpleNamespace(_initializing=True))
    monkeypatch.setitem(sys.modules, "torch", loading)
    devices = Devices()
    assert devices.current() == Device("unknown")
    assert fault_counts() == {}
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    assert devices.current().arch == "sm90"


def test_a_driver_that_fails_is_a_fault_and_no_more() -> None:
    assert Devices(None, [].pop).current() == Device("unknown")
    assert fault_counts() == {"detecting the device": 1}


class Size(enum.IntEnum):
    SMALL = 16


class Mode(enum.Enum):
    A = 1


class constexpr:  # noqa: N801 - named as Triton's
    def __init__(self, value: Any) -> None:
        self.value = value


class dtype:  # noqa: N801 - as numpy's
    __module__ = "numpy"

    def __str__(self) -> str:
        return "float16"


class Name(str, enum.Enum):  # noqa: UP042 - the older form of StrEnum, whose str() is not its value
    A = "a"


class Pair(NamedTuple):
    a: int
    b: int


@pytest.mark.parametrize(
    ("value", "text"),
    [(16, "16"), (True, "True"), (None, "None"), (1.5, "1.5"), ("a", "a"), ("1", r"\1"), ("a|b=c\\d", r"a\|b\=c\\d"), (Size.SMALL, "16"),
     (constexpr(3), "3"), (dtype(), "float16"), ((1, 2), "(1, 2)"), ((True, 1.0), "(1, 1)"), ([1, "x"], "(1, 'x')"), (Pair(1, 2), "(1, 2)"),
     (Name.A, "a"), (-0.0, "0.0"), ("(1, 2)", r"\(1, 2)"), (((1, 2), 3), "((1, 2), 3)"), (("(1, 2)", 3), "('(1, 2)', 3)"),
     ((dtype(),), "(float16,)"), (("float16",), "('float16',)")],
)  # fmt: skip
def test_key_values_have_one_stable_text(value: Any, text: Any) -> None:
    assert shape_key(["M"], {"M": value}) == "M=" + text


@pytest.mark.parametrize(
    "value", [object(), Mode.A, types.SimpleNamespace(dtype="x"), (1, object()), {1: 2}, "a\0b", "\ud800", lambda: 0]
)
def test_other_key_values_are_refused_by_name(value: Any) -> None:
    with pytest.raises(FormatError) as caught:
        shape_key(["M"], {"M": value})
    assert caught.value.path in {("M",), ()}


@given(st.permutations(["x", "y", "M", "N"]), st.integers(0, 4))
def test_the_key_does_not_depend_on_how_the_call_is_written(order: Any, positional: Any) -> None:
    names = ["x", "y", "M", "N"]
    given_values = {
        "x": types.SimpleNamespace(dtype="torch.bfloat16"),
        "y": types.SimpleNamespace(dtype="torch.float32"),
        "M": 3,
        "N": 4,
    }
    args = [given_values[name] for name in names[:positional]]
    kwargs = {name: given_values[name] for name in order if name not in names[:positional]} | {
        "grid": (1,),
        "warmup": False,
    }
    assert shape_key(["N", "M"], call_arguments(names, args, kwargs)) == "N=4|M=3|torch.bfloat16|torch.float32"


@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
)
def test_different_string_values_never_share_a_key(one: Any, other: Any) -> None:
    keys = [shape_key(["M", "N"], {"M": a, "N": b}) for a, b in ((one, other), (other, one))]
    assert (lookup_key(keys[0]) == lookup_key(keys[1])) == (one == other)
    assert len(split_key(keys[0])) == 2


def test_arguments_that_were_not_passed_are_left_out_as_triton_does() -> None:
    assert shape_key(["M", "N"], {"M": 1}) == "M=1"


def test_a_kernel_is_named_by_its_undecorated_function() -> None:
    inner = types.SimpleNamespace(fn=test_a_kernel_is_named_by_its_undecorated_function)
    for wrapped in (inner, types.SimpleNamespace(fn=inner), types.SimpleNamespace(base_fn=inner.fn, fn=inner)):
        assert kernel_name(wrapped) == f"{__name__}.test_a_kernel_is_named_by_its_undecorated_function"


def test_owners_are_distributions_with_their_versions() -> None:
    owners = Owners()
    kernels = ["hypothesis.core.kernel", "__main__.kernel", "nobody.kernel", "bare"]
    assert owners.miss(kernels)
    assert owners.known(kernels) == ({}, {})
    owners.find(kernels)
    packages, modules = owners.known(kernels)
    assert modules == {"hypothesis": "hypothesis"}
    assert packages == {"hypothesis": importlib.metadata.version("hypothesis")}
    assert not owners.miss(kernels)


def test_of_several_wheels_in_one_package_the_one_with_the_kernels_file_owns_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, file in (("flash_linear_attention", "models/x.py"), ("fla_core", "ops/cumsum.py")):
        folder = tmp_path / f"{name}-0.6.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 0.6.0\n")
        (folder / "RECORD").write_text(f"fla/{file},sha256=x,1\n")
    monkeypatch.syspath_prepend(tmp_path)
    owners = Owners()
    owners.find(["fla.ops.cumsum.kernel"])
    assert owners.known(["fla.ops.cumsum.kernel"]) == ({"fla-core": "0.6.0"}, {"fla": "fla-core"})
