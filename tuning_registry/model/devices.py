"""Architectures of the devices that other tools name in their files."""

from __future__ import annotations

import re
from typing import Final

from tuning_registry.model.names import normal_arch

UNKNOWN_ARCH: Final = "unknown"

# Words of a device's name, joined by `_`, that give its architecture. Sources: NVIDIA's list of CUDA GPUs, and the
# AMDGPU processors of LLVM.
_WORDS: Final = {
    "sm70": r"NVIDIA_.*V100|Tesla_V100",
    "sm75": r"NVIDIA_T4|Tesla_T4",
    "sm80": r"NVIDIA_A(100|800|30)",
    "sm86": r"NVIDIA_A(10|10G|40)|NVIDIA_RTX_A6000|NVIDIA_GeForce_RTX_30[5-9]0",
    "sm89": r"NVIDIA_L(4|20|40|40S)|NVIDIA_GeForce_RTX_40[5-9]0|NVIDIA_RTX_[0-9]+_Ada",
    "sm90": r"NVIDIA_(H20|H100|H200|H800|GH200)",
    "sm100": r"NVIDIA_(B100|B200|GB200)",
    "sm103": r"NVIDIA_(B300|GB300)",
    "sm120": r"NVIDIA_GeForce_RTX_50[5-9]0|NVIDIA_RTX_PRO_[0-9]+_Blackwell",
    "sm121": r"NVIDIA_GB10",
    "gfx90a": r"AMD_Instinct_MI2(10|50|50X)",
    "gfx942": r"AMD_Instinct_MI3(00A|00X|08X|25X|25)",
    "gfx950": r"AMD_Instinct_MI35[05]X?",
    "gfx1201": r"AMD_Radeon_R9700|AMD_Radeon_AI_PRO_R9700",
}
_ARCHS: Final = [(arch, re.compile(f"(?:{words})(?![A-Za-z0-9])", re.IGNORECASE)) for arch, words in _WORDS.items()]
_TARGET: Final = re.compile(r"sm_?[0-9]+[a-z]?|gfx[0-9a-f]+")


def arch_of_device(name: str) -> str:
    """The architecture of a device by its name: `NVIDIA H200` is `sm90`. `unknown` if the name does not tell.

    Tools replace spaces and slashes by underscores in file names, so these are the same.
    """
    plain = re.sub(r"[\s/]+", "_", name)
    if _TARGET.fullmatch(plain.lower()):
        return normal_arch(plain)
    return next((arch for arch, words in _ARCHS if words.match(plain)), UNKNOWN_ARCH)
