"""Architectures by the names of devices."""

from __future__ import annotations

import pytest

from tuning_registry.model.devices import arch_of_device


@pytest.mark.parametrize(
    ("device", "arch"),
    [
        ("NVIDIA_H200", "sm90"),
        ("NVIDIA H100 80GB HBM3", "sm90"),
        ("NVIDIA_H20-3e", "sm90"),
        ("NVIDIA_A100-SXM4-80GB", "sm80"),
        ("NVIDIA_A10", "sm86"),
        ("NVIDIA_GeForce_RTX_4090", "sm89"),
        ("NVIDIA_RTX_6000_Ada_Generation", "sm89"),
        ("NVIDIA_B200", "sm100"),
        ("NVIDIA_GB300", "sm103"),
        ("NVIDIA_GB10", "sm121"),
        ("NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition", "sm120"),
        ("AMD_Instinct_MI300X", "gfx942"),
        ("AMD_Instinct_MI325_OAM", "gfx942"),
        ("AMD_Instinct_MI355X", "gfx950"),
        ("sm_90a", "sm90"),
        ("gfx1100", "gfx1100"),
        # Names that do not tell: nothing is guessed.
        ("NVIDIA_H2000", "unknown"),
        ("NVIDIA_L20Y", "unknown"),
        ("AMD_Radeon_Graphics", "unknown"),
        ("Intel(R)_Arc(TM)_Pro_B60_Graphics", "unknown"),
        ("", "unknown"),
    ],
)
def test_the_architecture_of_a_device(device: str, arch: str) -> None:
    assert arch_of_device(device) == arch
