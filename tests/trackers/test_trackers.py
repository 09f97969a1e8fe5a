"""The documented lines for experiment trackers, executed with their real clients, offline (`make test-trackers`)."""

# mypy: disable-error-code="import-not-found, import-untyped"
# (The clients are installed by `make test-trackers` only.)

from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import blocks_run_by
from tuning_registry.runtime import install, provenance, uninstall

BLOCKS = blocks_run_by(__file__, "docs/runtime.md")


def run_documented(client: str, **names: Any) -> dict[str, str | int]:
    """Run the block of the documentation that mentions a client; returns what it should have logged."""
    (block,) = [block for block in BLOCKS if client in block.text]
    install(mode="auto")
    try:
        exec(block.text, names)
        return provenance()
    finally:
        uninstall()


def test_every_block_has_a_test() -> None:
    assert len(BLOCKS) == 3


def test_weights_and_biases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    import wandb

    with wandb.init(project="p", dir=str(tmp_path)) as run:
        stated = run_documented("wandb")
        logged = dict(run.config)
    assert {name: logged[name] for name in stated} == stated


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow

    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    with mlflow.start_run() as run:
        stated = run_documented("mlflow")
    logged = mlflow.get_run(run.info.run_id).data.tags
    assert {name: logged[name] for name in stated} == {name: str(value) for name, value in stated.items()}


def test_opentelemetry() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import use_span

    span = TracerProvider().get_tracer("test").start_span("train")
    with use_span(span):
        stated = run_documented("opentelemetry")
    assert {name: span.attributes[name] for name in stated} == stated
