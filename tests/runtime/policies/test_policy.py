"""Policies: what is accepted, from where, and what an omitted mode means."""

import pickle
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from tuning_registry.errors import FormatError, PolicyError
from tuning_registry.formats.loader import load
from tuning_registry.runtime import AutotunePolicy, active_policy, install, uninstall
from tuning_registry.runtime.control import resolve_mode
from tuning_registry.runtime.policies.options import policy_from_environment

FULL = {
    "mode": "pinned", "modules": ("fla", "mamba_ssm.ops"), "table_path": ("tables", Path("more")), "record_path": "rec/r",
    "on_miss": "error", "block_sizes": {"BLOCK_M": 64, "pkg.kernel": {"BLOCK_N": 32}}, "config_invariant": ("a.b", "c"),
    "verify_every": 10, "verify_strict": True, "enumerate_autotuners": True, "chaos": True, "run": "job", "source": "s",
    "arch": "sm90", "expect_digest": "0123456789abcdef", "check_launches": True,
    "module_names": ("scan_*=pkg.scan",), "split": 8, "split_repeats": 1, "audit": "seeded", "audit_memory": 1024,
    "report_html": "job.html", "torch_compile": False, "compile_ahead": False,
}  # fmt: skip


def test_a_mapping_and_a_pickle_give_the_policy_back() -> None:
    policy = AutotunePolicy.from_mapping(FULL)
    assert AutotunePolicy.from_mapping(policy.to_mapping()) == policy
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert set(policy.to_mapping()) == {f.name for f in fields(policy)}
    assert AutotunePolicy().to_mapping() == {}


def test_a_policy_cannot_be_changed() -> None:
    policy = AutotunePolicy.from_mapping(FULL)
    with pytest.raises(FrozenInstanceError):
        policy.mode = "auto"  # type: ignore[misc]
    with pytest.raises(TypeError):
        policy.block_sizes["BLOCK_M"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        policy.block_sizes["pkg.kernel"]["BLOCK_N"] = 1  # type: ignore[index]
    given = {"BLOCK_M": 64}
    policy = AutotunePolicy(block_sizes=given)
    given["BLOCK_M"] = 1
    assert policy.block_sizes["BLOCK_M"] == 64


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "pin"), ("mode", 1), ("mode", True), ("modules", "fla"), ("modules", [1]), ("modules", [""]), ("modules", ["a..b"]),
        ("modules", ["fla.*"]), ("modules", [" fla"]), ("config_invariant", ["k?"]), ("config_invariant", ["k[12]"]),
        ("modules", 3), ("table_path", 3), ("table_path", ""), ("table_path", [1]), ("table_path", b"x"), ("record_path", ""),
        ("record_path", 1), ("record_path", "folder/"), ("record_path", "a\0b"), ("record_path", "mysql://h/d"), ("record_path", "s3://bucket"),
        ("record_path", "sqlite://"), ("record_path", "sqlite:///:memory:"), ("record_path", "sqlite:/r"), ("record_path", "runs/r.db"),
        ("record_path", "'postgresql://u:p@h/d'"), ("record_path", " sqlite:////r"), ("record_path", "postgresql//u:p@h/d"),
        ("record_path", "u:p@h/d"), ("record_path", "sqlite://r"), ("record_path", "sqlite:///r?x=1"), ("record_path", "sqlite:////r/"),
        ("record_path", "postgresql://u:a@b@h/d"), ("table_path", "postgresql://u:p@h/d"), ("table_path", "u:p@h/d"), ("on_miss", "ignore"), ("on_miss", None),
        ("block_sizes", [("A", 1)]), ("block_sizes", {"A": "64"}), ("block_sizes", {"A": True}), ("block_sizes", {1: 64}),
        ("block_sizes", {"k": {"A": 1.5}}), ("block_sizes", {"k": {"j": {"A": 1}}}), ("block_sizes", {"": 1}),
        ("block_sizes", {"A": 0}), ("block_sizes", {"A": -1}), ("block_sizes", {"BLOCK-C": 64}), ("block_sizes", {"k": {"A": 0}}),
        ("expect_digest", "123"), ("expect_digest", "x" * 64), ("expect_digest", 5), ("check_launches", 1),
        ("report_html", ""), ("report_html", 1), ("report_html", "a\0b"), ("report_html", "https://h/job.html"),
        ("audit", 1), ("audit", "yes"), ("audit", None), ("audit_memory", -1), ("audit_memory", True), ("audit_memory", 1.5),
        ("config_invariant", "kernel"), ("config_invariant", [None]), ("verify_every", -1), ("verify_every", True),
        ("verify_every", 2.0), ("verify_every", "2"), ("verify_strict", 1), ("enumerate_autotuners", "yes"), ("chaos", 0),
        ("chaos", None), ("run", ""), ("run", 5), ("run", "a\0"), ("source", 5), ("arch", "H100"), ("arch", 90), ("run", "\ud800"),
    ],
)  # fmt: skip
def test_a_wrong_value_raises_and_names_the_field(field: Any, value: Any) -> None:
    with pytest.raises(FormatError) as caught:
        AutotunePolicy(**{field: value})
    assert caught.value.path[0] == field
    assert field in str(caught.value)


def test_record_needs_a_record_path() -> None:
    with pytest.raises(FormatError, match="record_path"):
        AutotunePolicy(mode="record")


def test_unknown_fields_are_refused_by_name() -> None:
    with pytest.raises(FormatError, match="tabel_path"):
        AutotunePolicy.from_mapping({"tabel_path": "x"})
    with pytest.raises(FormatError, match="a str"):
        AutotunePolicy.from_mapping("mode=auto")  # type: ignore[arg-type]


def test_arch_is_kept_in_its_normal_form() -> None:
    assert AutotunePolicy(arch="gfx942:sramecc+:xnack-").arch == "gfx942"


def test_scope_goes_by_whole_package_names() -> None:
    policy = AutotunePolicy(modules=("fla", "mamba_ssm.ops"))
    inside = ["fla.ops.kernel", "fla.kernel", "mamba_ssm.ops.norm.kernel"]
    outside = ["flash.kernel", "mamba_ssm.opsx.kernel", "mamba_ssm.kernel", "fla", "my.fla.kernel"]
    assert [policy.in_scope(kernel) for kernel in inside + outside] == [True] * 3 + [False] * 5
    assert AutotunePolicy().in_scope("anything.kernel")


def test_block_sizes_of_one_kernel_stand_over_those_for_all() -> None:
    policy = AutotunePolicy(block_sizes={"A": 1, "B": 1, "kernel": {"B": 2}, "pkg.kernel": {"C": 3}})
    assert policy.block_sizes_of("pkg.kernel") == {"A": 1, "B": 2, "C": 3}
    assert policy.block_sizes_of("pkg.other") == {"A": 1, "B": 1}


def test_the_environment_states_every_field() -> None:
    environment = {
        "TUNING_REGISTRY_MODE": "pinned", "TUNING_REGISTRY_MODULES": "fla, mamba_ssm.ops", "TUNING_REGISTRY_TABLE_PATH": "a:b",
        "TUNING_REGISTRY_RECORD_PATH": "rec/r", "TUNING_REGISTRY_ON_MISS": "error",
        "TUNING_REGISTRY_BLOCK_SIZES": '{"BLOCK_M": 64, "pkg.kernel": {"BLOCK_N": 32}}',
        "TUNING_REGISTRY_CONFIG_INVARIANT": "a.b,c", "TUNING_REGISTRY_VERIFY_EVERY": "10", "TUNING_REGISTRY_VERIFY_STRICT": "1",
        "TUNING_REGISTRY_ENUMERATE_AUTOTUNERS": "true", "TUNING_REGISTRY_CHAOS": "on", "TUNING_REGISTRY_RUN": "job",
        "TUNING_REGISTRY_EXPECT_DIGEST": "0123456789ABCDEF", "TUNING_REGISTRY_CHECK_LAUNCHES": "1",
        "TUNING_REGISTRY_SOURCE": "s", "TUNING_REGISTRY_ARCH": "sm_90", "TUNING_REGISTRY_DB": "postgresql://x/y", "HOME": "/",
        "TUNING_REGISTRY_MODULE_NAMES": "scan_*=pkg.scan", "TUNING_REGISTRY_SPLIT": "8", "TUNING_REGISTRY_SPLIT_REPEATS": "1",
        "TUNING_REGISTRY_AUDIT": "Seeded", "TUNING_REGISTRY_AUDIT_MEMORY": "1024",
        "TUNING_REGISTRY_REPORT_HTML": "job.html", "TUNING_REGISTRY_TORCH_COMPILE": "0",
        "TUNING_REGISTRY_COMPILE_AHEAD": "0",
    }  # fmt: skip
    assert policy_from_environment(environment) == AutotunePolicy.from_mapping({**FULL, "table_path": ("a", "b")})
    assert policy_from_environment({"TUNING_REGISTRY_MODE": " ", "TUNING_REGISTRY_CHAOS": "0"}) == AutotunePolicy()
    sizes = policy_from_environment({"TUNING_REGISTRY_BLOCK_SIZES": "BLOCK_M=64, BLOCK_N=32"}).block_sizes
    assert sizes == {"BLOCK_M": 64, "BLOCK_N": 32}


@pytest.mark.parametrize(
    ("variable", "value"),
    [("MODE", "pin"), ("VERIFY_EVERY", "often"), ("CHAOS", "maybe"), ("BLOCK_SIZES", "BLOCK_M"), ("BLOCK_SIZES", '{"A": 1, "A": 2}'),
     ("BLOCK_SIZES", "A=1,A=2"), ("ARCH", "H100"), ("RECORD_PATH", "folder/")],
)  # fmt: skip
def test_a_variable_that_cannot_be_read_is_named(variable: Any, value: Any) -> None:
    with pytest.raises(FormatError, match="TUNING_REGISTRY_" + variable):
        policy_from_environment({"TUNING_REGISTRY_" + variable: value})


def test_a_variable_that_is_not_a_field_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    policy_from_environment({"TUNING_REGISTRY_RECRD_PATH": "x"})
    assert "TUNING_REGISTRY_RECRD_PATH" in caplog.text


def test_an_omitted_mode(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    assert resolve_mode(AutotunePolicy()).mode == "auto"
    assert resolve_mode(AutotunePolicy(), deterministic=True).mode == "pinned"
    assert resolve_mode(AutotunePolicy(record_path="r"), deterministic=True).mode == "record"
    assert resolve_mode(AutotunePolicy(mode="auto"), deterministic=True).mode == "auto"
    torch.use_deterministic_algorithms(True)
    try:
        assert resolve_mode(AutotunePolicy()).mode == "pinned"
        assert resolve_mode(AutotunePolicy(), deterministic=False).mode == "pinned"
    finally:
        torch.use_deterministic_algorithms(False)


def test_install_replaces_the_policy_and_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    assert active_policy() is None
    first = install({"mode": "pinned", "arch": "sm90"})
    assert active_policy() is first
    monkeypatch.setenv("TUNING_REGISTRY_MODE", "auto")
    assert install() is active_policy()
    assert active_policy() == AutotunePolicy(mode="auto")
    uninstall()
    uninstall()
    assert active_policy() is None


@pytest.mark.parametrize(
    "bad", [{"mode": "pin"}, {"mode": "pinned", "table_path": "/no/such/table"}, {"mode": "pinned", "x": 1}]
)
def test_a_policy_that_cannot_work_leaves_the_old_one(bad: Any) -> None:
    triton = pytest.importorskip("triton")
    old = install({"mode": "pinned", "arch": "sm90"})
    run = triton.runtime.Autotuner.run
    with pytest.raises((FormatError, PolicyError)):
        install(bad)
    assert active_policy() is old
    assert triton.runtime.Autotuner.run is run


@pytest.mark.parametrize(("content", "message"), [("{}", "not a per-arch table"), ('{"arch": ', "truncated")])
def test_a_table_file_that_is_not_a_table_is_refused_by_install(tmp_path: Path, content: str, message: str) -> None:
    pytest.importorskip("triton")
    (tmp_path / "sm90.json").write_text(content)
    with pytest.raises(PolicyError, match=message):
        install({"mode": "pinned", "table_path": tmp_path / "sm90.json"})
    assert install({"mode": "pinned", "table_path": tmp_path}).mode == "pinned"


def test_many_processes_without_a_run_name_are_refused_by_the_variables_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("triton")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(PolicyError, match=r"rank 3 of 8.*TUNING_REGISTRY_RUN"):
        install({"record_path": str(tmp_path / "r")})
    monkeypatch.setenv("TUNING_REGISTRY_RUN", "mine")
    assert install({"record_path": str(tmp_path / "r")}).mode == "record"


def test_a_table_path_without_pinning_is_said_aloud(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("triton")
    install(AutotunePolicy(mode="auto", table_path=tmp_path, arch="sm90"))
    assert "table_path has no effect in mode auto" in caplog.text
    caplog.clear()
    install(AutotunePolicy(mode="pinned", table_path=tmp_path, arch="sm90"))
    assert "no effect" not in caplog.text


def test_a_table_folder_without_the_architecture_is_said_aloud(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load("sm77", tmp_path)
    assert f"{tmp_path} has no sm77.json; searching further" in caplog.text


def test_no_password_is_shown_by_a_policy() -> None:
    policy = AutotunePolicy(record_path="postgresql://me@srv:S3?CRET@host/db?password=S3CRET2", run="job")
    assert "CRET" not in repr(policy)
    assert "run='job'" in repr(policy)


def test_null_means_the_default() -> None:
    names = list(AutotunePolicy.__dataclass_fields__)
    assert AutotunePolicy.from_mapping(dict.fromkeys(names)) == AutotunePolicy()


def test_paths_are_equal_whatever_their_type(tmp_path: Path) -> None:
    as_path = AutotunePolicy(record_path=tmp_path / "r", table_path=(tmp_path, tmp_path / "t"))
    as_text = AutotunePolicy(record_path=str(tmp_path / "r"), table_path=(str(tmp_path), str(tmp_path / "t")))
    assert as_path == as_text
    assert hash(as_path) == hash(as_text)


def test_a_mapping_of_a_policy_holds_plain_values_only(tmp_path: Path) -> None:
    policy = AutotunePolicy(mode="pinned", table_path=(tmp_path,), block_sizes={"BLOCK_M": 64}, modules=("fla",))
    mapping = policy.to_mapping()
    assert {type(value) for value in mapping.values()} <= {str, int, bool, tuple, dict}
    assert AutotunePolicy.from_mapping(mapping) == policy
