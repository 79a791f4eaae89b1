"""The health checks of the GitOps example, carried out: Argo CD's in Lua, Flux's in CEL."""

from pathlib import Path

import cel
import lupa
import pytest
import yaml

from aim_domain.kinds import OWN_KINDS
from controller_runtime import JsonObject
from controller_runtime.api.enums import StatusValue

EXAMPLE = Path(__file__).parents[3] / "examples/gitops"
HEALTH = {
    "Running": "Healthy", "Ready": "Healthy", "Pending": "Progressing", "Starting": "Progressing",
    "Progressing": "Progressing", "Degraded": "Degraded", "Failed": "Degraded", "NotAvailable": "Suspended",
}  # fmt: skip


def service(state: str, observed: int = 2) -> JsonObject:
    ready = {"type": "Ready", "status": "False", "message": "the token is refused"}
    status = {"status": state, "observedGeneration": observed, "conditions": [{"type": "ModelReady"}, ready]}
    return {"kind": "AIMService", "metadata": {"generation": 2}, "status": status}


def argo_health(obj: JsonObject) -> tuple[str, str]:
    """Status and message."""
    patch = yaml.safe_load((EXAMPLE / "argocd-health.yaml").read_text("utf-8"))
    customized = yaml.safe_load(patch["data"]["resource.customizations"])
    lua = lupa.LuaRuntime()
    check = lua.eval(f"function(obj) {customized['aim.eai.amd.com/*']['health.lua']} end")
    health = check(lua.table_from(obj, recursive=True))
    return str(health["status"]), str(health["message"])


@pytest.mark.spec("FW-020")
def test_argo_cd_knows_every_state_and_waits_for_the_newest_generation() -> None:
    assert HEALTH.keys() == {one.value for one in StatusValue}
    for state, health in HEALTH.items():
        assert argo_health(service(state)) == (health, "the token is refused")
        assert argo_health(service(state, observed=1)) == ("Progressing", "not observed yet")
    assert argo_health({"kind": "AIMService", "metadata": {"generation": 1}})[0] == "Progressing"
    stateless = [kind.kind for kind in OWN_KINDS if kind.kind.endswith("RuntimeConfig")]
    assert len(stateless) == 2
    assert {argo_health({"kind": kind, "metadata": {}})[0] for kind in stateless} == {"Healthy"}


@pytest.mark.spec("FW-020")
def test_flux_knows_every_state_of_a_service() -> None:
    (check,) = yaml.safe_load((EXAMPLE / "flux.yaml").read_text("utf-8"))["spec"]["healthCheckExprs"]
    words = {"Healthy": "current", "Degraded": "failed", "Progressing": "inProgress"}

    def verdicts(obj: JsonObject) -> list[str]:
        return [name for name in words.values() if cel.evaluate(check[name], obj) is True]

    for state in ("Pending", "Starting", "Running", "Degraded", "Failed"):
        assert verdicts(service(state)) == [words[HEALTH[state]]]
        assert "inProgress" in verdicts(service(state, observed=1)), "Flux asks this first"
    assert verdicts({"metadata": {"generation": 1}, "status": {}}) == ["inProgress"]
