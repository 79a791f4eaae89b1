"""Which GPU is preferred to which."""

import pytest

from aim_domain import GPUS_BY_PREFERENCE, gpu_rank
from aim_domain.gpu.devices import STATIC_VRAM, device_ids, model_of_device

FROM_OTHERS = {"A100", "H100"}


@pytest.mark.spec("SV-098", "SV-308")
def test_every_known_model_has_a_place_and_none_has_two() -> None:
    assert set(GPUS_BY_PREFERENCE) - FROM_OTHERS == set(STATIC_VRAM) | {"MI350P"}, "the memory of one is not known"
    assert len(set(GPUS_BY_PREFERENCE)) == len(GPUS_BY_PREFERENCE)
    assert all(model_of_device(one) == model for model in GPUS_BY_PREFERENCE for one in device_ids(model))


@pytest.mark.spec("SV-098", "SV-308")
def test_the_order() -> None:
    known = ["MI355X", "MI350X", "MI325X", "MI300X", "MI308X", "MI250X", "MI210", "A100", "H100"]
    assert sorted(set(known), key=gpu_rank) == known


@pytest.mark.spec("SV-308")
def test_a_new_generation_is_preferred_before_the_table_knows_it() -> None:
    given = ["", "RX9999", "MI210", "MI355X", "MI430X", "MI455X", "MI250", "MI250X"]
    assert sorted(given, key=gpu_rank)[:6] == ["MI455X", "MI430X", "MI355X", "MI250X", "MI250", "MI210"]
    assert gpu_rank("") == gpu_rank("RX9999") == gpu_rank("MIX")
