"""Names and label values that KServe, KEDA and Kubernetes derive from ours are valid, whatever ours are."""

import re
from typing import Final

import pytest
from hypothesis import example, given, seed, settings
from hypothesis import strategies as st

from aim_domain import naming
from aim_domain.naming import FOREIGN_NAMES, NamingError

KSERVE_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
"""KServe's webhook refuses an InferenceService of any other name; Services have the same rule."""
DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
LONGEST_NAMESPACE: Final = 42

NAMESPACES: Final = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
OBJECTS: Final = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,70}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,70}[a-z0-9])?)?", fullmatch=True
)
UIDS: Final = st.uuids().map(str)


@pytest.mark.spec("FW-800", "FW-801", "SV-144", "SV-145")
@seed(20261126)
@settings(max_examples=150, deadline=None, database=None)
@given(service=OBJECTS, namespace=NAMESPACES)
@example(service="mixtral-8x22b-instruct-long-context-eval-fp8", namespace="ai")
@example(service="x" * 60, namespace="a")
@example(service="7b-chat", namespace="ml")
@example(service="0" * 253, namespace="0")
@example(service="a", namespace="n" * 42)
@example(service="9", namespace="n" * 42)
@example(service="a", namespace="n" * 43)
def test_every_name_that_others_derive_from_an_inference_service_is_valid(service: str, namespace: str) -> None:
    if len(namespace) > LONGEST_NAMESPACE:
        with pytest.raises(NamingError, match=rf"{namespace} has {len(namespace)} .* 63 .* at most 42 characters"):
            naming.inference_service_name(service, namespace)
        return
    name = naming.inference_service_name(service, namespace)
    assert KSERVE_NAME.fullmatch(name)
    assert len(name) <= 48
    assert KSERVE_NAME.fullmatch(naming.predictor_name(name))
    assert len(naming.predictor_name(name)) <= 63
    assert DNS_LABEL.fullmatch(f"{name}-predictor-{namespace}")
    assert len(f"{name}-predictor-{namespace}") <= 63, "the first label of the host name"
    assert len(f"isvc.{name}-predictor") <= 63, "the label app of the Deployment and its pods"
    assert len(naming.autoscaler_name(name)) <= 253
    assert all(len(one.text(name, namespace)) <= one.limit for one in FOREIGN_NAMES)


@pytest.mark.spec("FW-800", "FW-235")
@seed(20261126)
@settings(max_examples=100, deadline=None, database=None)
@given(name=OBJECTS, other=OBJECTS, uid=UIDS)
def test_names_of_jobs_volumes_and_labels_are_valid(name: str, other: str, uid: str) -> None:
    made = (
        naming.download_job_name(name, uid),
        naming.check_size_job_name(name, uid),
        naming.claim_name(name, uid),
        naming.http_route_name(name, other),
        naming.shared_cache_name(name, other),
        naming.dedicated_cache_name(name, other, uid),
        naming.template_profile_name(name),
        naming.service_profile_name(name),
        naming.image_model_name(name, other, f"{name}:{other}"),
        naming.catalogue_model_name("docker.io", name, other),
    )
    # A Job's name is a label of its pods.
    assert all(DNS_LABEL.fullmatch(one) and len(one) <= 63 for one in made)
    value = naming.optional_label_value(name) or ""
    assert LABEL_VALUE.fullmatch(value)
    assert len(value) <= 63


@pytest.mark.spec("FW-801")
def test_a_name_with_a_digit_first_is_no_other_service_s() -> None:
    names = [naming.inference_service_name(service, "ml") for service in ("7b-chat", "aim-7b-chat", "7b.chat")]
    assert len(set(names)) == 3
    assert names[0].startswith("aim-7b-chat-")
