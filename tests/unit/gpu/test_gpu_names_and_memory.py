"""Canonical names, device ids and memory of AMD GPUs (DI-176, DI-181…DI-189)."""

import pytest

from aim_domain import canonical_model, device_ids
from aim_domain.gpu.devices import (
    STATIC_VRAM,
    VRAM_TIERS,
    device_ids_from,
    model_of_device,
    models_from,
    static_vram,
    tiers_from,
    vram_bytes,
)


@pytest.mark.spec("DI-189", "DI-P18")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("mi300x", "MI300X"),
        ("  mi300x  ", "MI300X"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("MI300X (rev 2)", "MI300X"),
        ("InstinctMI300X", "MI300X"),
        ("Instinct-MI325X", "MI325X"),
        ("AI", "AI"),
        ("RX7900-XTX", "RX7900"),
        ("Radeon RX 7900 XTX", "7900"),
        ("UNKNOWN-GPU", "UNKNOWN"),
        ("", ""),
        ("NONEXISTENT-GPU-MODEL-12345", "12345"),
    ],
)
def test_names_in_all_spellings_have_one_canonical_form(text: str, name: str) -> None:
    assert canonical_model(text) == name


@pytest.mark.spec("DI-176", "DI-181")
@pytest.mark.parametrize(
    ("device_id", "model"),
    [("74a1", "MI300X"), ("0x74A1", "MI300X"), ("75b3", "MI355X"), ("7550", "RX9070"), ("beef", "AMD-BEEF")],
)
def test_device_ids_name_models(device_id: str, model: str) -> None:
    assert model_of_device(device_id) == model


@pytest.mark.spec("DI-182")
def test_ids_of_a_model_are_sorted_and_empty_for_a_stranger() -> None:
    assert device_ids("Instinct_MI300X") == ("74a1", "74a9", "74b5", "74bd")
    assert device_ids("H100") == ()


@pytest.mark.spec("DI-184", "DI-185")
@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("192G", 206158430208),
        (" 192g ", 206158430208),
        ("1T", 1099511627776),
        ("196608", 206158430208),
        ("206158430208", 206158430208),
        ("abc", 0),
        ("", 0),
        ("192Gi", 0),
    ],
)
def test_memory_labels_read_as_bytes(text: str, amount: int) -> None:
    assert vram_bytes(text) == amount


@pytest.mark.spec("DI-183", "DI-187", "DI-188")
def test_helpers_over_the_static_table() -> None:
    assert static_vram("mi300x") == "192G"
    assert set(VRAM_TIERS) == set(STATIC_VRAM.values())
    assert tiers_from(0) == VRAM_TIERS
    assert tiers_from(200 << 30) == ("256G", "288G")
    assert models_from(256 << 30) == ("MI325X", "MI350X", "MI355X")
    assert device_ids_from(288 << 30) == ("75a0", "75a3", "75b0", "75b3")
    assert device_ids_from(192 << 30, "MI300X") == device_ids("MI300X")
    assert device_ids_from(193 << 30, "MI300X") == ()
    assert device_ids_from(193 << 30, "H100") == ()
