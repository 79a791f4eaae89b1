"""Certificates, tokens and kubeconfigs of a node."""

import csv
import io
import ssl
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from aim_local.node import NodeSettings
from aim_local.node.keys import ADMIN, CONTROLLER_MANAGER, FRONT_PROXY, PROXY, SCHEDULER, Keys


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    settings = NodeSettings(tmp_path_factory.mktemp("node"))
    made = Keys(settings.run / "keys", settings)
    made.write()
    return made


def certificate(keys: Keys, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(keys.file(f"{name}.crt").read_bytes())


def subject(found: x509.Certificate) -> dict[str, str]:
    return {one.rfc4514_attribute_name: str(one.value) for one in found.subject}


def alternatives(found: x509.Certificate) -> set[str]:
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    dns = names.get_values_for_type(x509.DNSName)
    return {*dns, *map(str, names.get_values_for_type(x509.IPAddress))}


def tokens(keys: Keys) -> dict[str, list[str]]:
    """Rows of the token file by user."""
    rows = list(csv.reader(io.StringIO(keys.file("tokens.csv").read_text())))
    return {row[1]: row for row in rows}


def test_only_their_owner_reads_them(keys: Keys) -> None:
    assert oct(keys.folder.stat().st_mode & 0o777) == "0o700"
    files = [*keys.folder.iterdir(), keys.settings.kubeconfig]
    assert {oct(one.stat().st_mode & 0o777) for one in files} == {"0o600"}


def test_the_authoritys_key_is_in_no_file(keys: Keys) -> None:
    key = keys.authority.private_key_pem.bytes()
    assert all(key.strip() not in one.read_bytes() for one in keys.folder.iterdir())
    assert not keys.file("ca.key").exists()


def test_all_certificates_are_of_the_authority(keys: Keys) -> None:
    authority = certificate(keys, "ca")
    issued = [one.stem for one in keys.folder.glob("*.crt") if one.stem != "ca"]
    assert len(issued) == 6
    for name in issued:
        certificate(keys, name).verify_directly_issued_by(authority)
        ssl.create_default_context().load_cert_chain(keys.file(f"{name}.crt"), keys.file(f"{name}.key"))


def test_the_api_server_is_known_by_each_name_and_address_that_reaches_it(keys: Keys) -> None:
    assert alternatives(certificate(keys, "apiserver")) == {
        "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster",
        "kubernetes.default.svc.cluster.local", "127.0.0.1", str(keys.settings.address),
        str(keys.settings.kubernetes_service),
    }  # fmt: skip


@pytest.mark.parametrize(("name", "address"), [("node-0", "10.77.0.1"), ("node-1", "10.77.1.1")])
def test_a_kubelet_is_known_by_its_nodes_name_and_address(keys: Keys, name: str, address: str) -> None:
    assert alternatives(certificate(keys, f"kubelet-{name}")) == {name, address}


def test_certificates_of_clients_carry_user_and_group(keys: Keys) -> None:
    kubelets = subject(certificate(keys, "apiserver-kubelet"))
    assert (kubelets["CN"], kubelets["O"]) == ("kube-apiserver-kubelet-client", "system:masters")
    assert subject(certificate(keys, FRONT_PROXY))["CN"] == FRONT_PROXY


def test_each_user_has_a_token_and_its_groups(keys: Keys) -> None:
    rows = tokens(keys)
    assert {user: row[3] for user, row in rows.items()} == {
        ADMIN: "system:masters",
        CONTROLLER_MANAGER: "",
        SCHEDULER: "",
        PROXY: "",
        "system:node:node-0": "system:nodes",
        "system:node:node-1": "system:nodes",
    }
    assert len({row[0] for row in rows.values()}) == len(rows)
    assert min(len(row[0]) for row in rows.values()) >= 32


def test_each_user_has_a_kubeconfig_with_its_token(keys: Keys) -> None:
    for user, row in tokens(keys).items():
        config = yaml.safe_load(keys.kubeconfig(user).read_text())
        [cluster], [entry], [context] = config["clusters"], config["users"], config["contexts"]
        assert entry == {"name": user, "user": {"token": row[0]}}
        assert cluster["cluster"] == {
            "server": "https://10.77.0.1:6443",
            "certificate-authority": str(keys.file("ca.crt")),
        }
        assert context["context"] == {"cluster": cluster["name"], "user": user}
        assert config["current-context"] == context["name"]


def test_the_administrators_kubeconfig_is_where_people_look(keys: Keys) -> None:
    assert keys.settings.kubeconfig.read_text() == keys.kubeconfig(ADMIN).read_text()


def test_two_nodes_have_nothing_in_common(keys: Keys, tmp_path: Path) -> None:
    settings = NodeSettings(tmp_path)
    other = Keys(settings.run / "keys", settings)
    other.write()
    assert not {row[0] for row in tokens(keys).values()} & {row[0] for row in tokens(other).values()}
    with pytest.raises(ValueError, match="issuer"):
        certificate(other, "apiserver").verify_directly_issued_by(certificate(keys, "ca"))


def test_a_webhook_has_a_certificate_for_its_service(keys: Keys) -> None:
    name = "hook.system.svc"
    issued, key = keys.webhook(name)
    found = x509.load_pem_x509_certificate(issued.encode())
    assert alternatives(found) == {name}
    found.verify_directly_issued_by(certificate(keys, "ca"))
    assert "PRIVATE KEY" in key
