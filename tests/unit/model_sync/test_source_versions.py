"""Version constraints: the golden table of the specification, grammar, and properties."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from semver import Version

from aim_model_sync.codes import SelectorError, SyncCode
from aim_model_sync.versions import effective_versions, parse_constraint, parse_constraints, parse_tag


@pytest.mark.spec(
    "MS-072",
    "MS-075",
    "MS-076",
    "MS-077",
    "MS-078",
    "MS-079",
    "MS-080",
    "MS-081",
    "MS-082",
    "MS-083",
    "MS-085",
    "MS-087",
    "MS-089",
    "MS-090",
    "MS-S027",
    "MS-S028",
    "MS-S029",
    "MS-S030",
    "MS-S031",
    "MS-S032",
    "MS-S033",
    "MS-S034",
    "MS-S035",
    "MS-S036",
    "MS-S037",
    "MS-S038",
    "MS-S039",
    "MS-S040",
    "MS-S043",
    "MS-S044",
    "MS-S045",
    "MS-S046",
    "MS-S047",
    "MS-S048",
    "MS-S049",
    "MS-S050",
    "MS-P02",
    "MS-P03",
    "MS-P34",
)
@pytest.mark.parametrize(
    ("tag", "constraints", "expected"),
    [
        ("1.0.0", [">=1.0.0"], True),
        ("v1.0.0", [">=1.0.0"], True),
        ("2.0.0", [">=1.0.0"], True),
        ("1.0.0", ["<2.0.0"], True),
        ("1.5.0", [">=1.0.0", "<2.0.0"], True),
        ("2.5.0", [">=1.0.0", "<2.0.0"], False),
        ("1.2.3", ["~1.2.0"], True),
        ("1.3.0", ["~1.2.0"], False),
        ("1.5.0", ["^1.2.0"], True),
        ("2.0.0", ["^1.2.0"], False),
        ("latest", [">=1.0.0"], False),
        ("dev", [">=1.0.0"], False),
        ("stable", [">=1.0.0"], False),
        ("1.0", [">=1.0.0"], False),
        ("1.0.0", [], True),
        ("0.8.1-rc1", [">=0.8.0"], True),
        ("0.8.1-rc1", [">=0.8.1-rc1"], True),
        ("0.8.1-rc1", [">=0.8.1"], False),
        ("1.0.0-alpha.1", [">=1.0.0-alpha"], True),
        ("0.8.1-rc1", [], True),
        ("0.8.4", [">=0.9"], False),
        ("0.8.4", [">=0.9.0"], False),
        ("1.0.0", ["1.0.0", "1.1.0"], True),
        ("1.1.0", ["1.0.0", "1.1.0"], True),
        ("1.1.0", ["1.0.0", "1.1.0", "<1.1.0"], False),
        ("0.8.4", ["0.8.4"], True),
        ("v0.8.4", ["0.8.4"], True),
        ("0.8.5", ["0.8.4"], False),
        ("1.0.0-rc1", ["<1.0.0"], True),
        ("1.3.0-rc1", ["~1.2.0"], False),
        ("2.0.0-rc1", ["^1.2.0"], False),
        ("1.4.0", [">=1.0.0 <1.3.0 || >=1.4.0"], True),
        ("1.3.5", [">=1.0.0 <1.3.0 || >=1.4.0"], False),
        ("0.8.5", ["^0.8.1"], True),
        ("0.9.0", ["^0.8.1"], False),
        ("0.0.3", ["^0.0.3"], True),
        ("0.0.4", ["^0.0.3"], False),
        ("latest", [], True),
        ("1.0", [], True),
        ("0.8.4", [">=0.8.0", "<=0.9.0-rc1"], True),
        ("0.9.0-rc1", [">=0.8.0", "<=0.9.0-rc1"], True),
        ("0.9.0", [">=0.8.0", "<=0.9.0-rc1"], False),
    ],
)
def test_golden_table(tag: str, constraints: list[str], expected: bool) -> None:
    assert parse_constraints(constraints).admits(tag) is expected


@pytest.mark.spec("MS-078", "MS-085", "MS-086", "MS-087", "MS-P04")
@pytest.mark.parametrize(
    ("entry", "inside", "outside"),
    [
        (">=1", ["1.0.0", "2.3.4"], ["0.9.9", "1.0.0-rc1"]),
        (">= v1.2", ["1.2.0"], ["1.1.9"]),
        ("==1.0.0", ["v1.0.0"], ["1.0.1"]),
        ("!=1.0.0", ["1.0.1"], ["1.0.0"]),
        ("! 1.0.0", ["1.0.1"], ["1.0.0"]),
        (">=1.0.0,<2.0.0", ["1.9.9"], ["2.0.0"]),
        (">=1.0.0 , <2.0.0", ["1.9.9"], ["2.0.0"]),
        ("1.x", ["1.0.0", "1.9.1"], ["0.9.0", "2.0.0", "2.0.0-rc1"]),
        ("1.2.x", ["1.2.0", "1.2.7"], ["1.3.0"]),
        ("*", ["0.0.1", "1.0.0-rc1"], []),
        ("1.0.0 - 2.0.0", ["1.0.0", "2.0.0"], ["0.9.9", "2.0.1"]),
        ("~1", ["1.9.0"], ["2.0.0"]),
        ("~1.2", ["1.2.9"], ["1.3.0"]),
        ("^0", ["0.9.0"], ["1.0.0-rc1"]),
        ("^0.0", ["0.0.9"], ["0.1.0"]),
        ("1.0.0 || 3.0.0", ["1.0.0", "3.0.0"], ["2.0.0"]),
    ],
)
def test_grammar(entry: str, inside: list[str], outside: list[str]) -> None:
    constraints = parse_constraints([entry])
    assert [tag for tag in inside if not constraints.admits(tag)] == []
    assert [tag for tag in outside if constraints.admits(tag)] == []


@pytest.mark.spec("MS-088")
@pytest.mark.parametrize(
    ("entry", "exact"),
    [
        ("1.0.0", True), ("v1.0.0", True), ("0.9.0-rc2", True), ("=1.0.0", True), (" 1.0.0 ", True),
        (">=1.0.0", False), (">1.0.0", False), ("<=2.0.0", False), ("<2.0.0", False), ("~1.2.0", False),
        ("^1.0.0", False), (">=1.0.0 || <0.5.0", False), ("1.0.0 - 2.0.0", False), ("1.x", False), ("!1.0.0", False),
    ],
)  # fmt: skip
def test_exact_entries(entry: str, exact: bool) -> None:
    assert parse_constraint(entry).is_exact is exact


@pytest.mark.spec("MS-092", "MS-263", "MS-S041", "MS-S042", "MS-P02")
@pytest.mark.parametrize(
    "entry",
    [
        "invalid", "latest", ">>1", "", " ", ">=", "1.0.0 ||", "1.0.0,", "1.2.3.4", "1.0.0-", "01.0.0", "1.0-rc1",
        ">=1.x", "=>1.0.0", "1.0.0+build", "~>1.0", "9" * 2000,
    ],
)  # fmt: skip
def test_unreadable_entries_are_quoted(entry: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_constraints([entry, ">=1.0.0"])
    assert caught.value.code is SyncCode.INVALID_VERSION_CONSTRAINT
    assert repr(entry)[:40] in str(caught.value)


@pytest.mark.spec("MS-072", "MS-P35")
def test_an_own_list_replaces_the_common_one() -> None:
    assert effective_versions([">=0.8.0"], [">=1.0.0"]) == (">=0.8.0",)
    assert effective_versions([], [">=1.0.0"]) == (">=1.0.0",)


@pytest.mark.spec("MS-084", "MS-P33")
def test_prereleases_compare_as_semver_says() -> None:
    assert parse_constraints(["<1.0.0-rc2"]).admits("1.0.0-rc10")
    assert parse_constraints([">1.0.0-rc.2"]).admits("1.0.0-rc.10")


numbers = st.integers(min_value=0, max_value=30)
versions = st.builds(
    Version,
    numbers, numbers, numbers, st.sampled_from([None, "rc1", "rc.2", "alpha", "0"]),
)  # fmt: skip


@pytest.mark.spec("MS-076")
@given(versions)
def test_every_version_is_a_tag_with_and_without_v(version: Version) -> None:
    assert parse_tag(str(version)) == version == parse_tag(f"v{version}")
    assert parse_tag(f"vv{version}") is None


@pytest.mark.spec("MS-079", "MS-081")
@given(versions, versions)
def test_tilde_and_caret_bound_what_they_say(base: Version, other: Version) -> None:
    if parse_constraints([f"~{base}"]).admits(str(other)):
        assert other >= base
        assert (other.major, other.minor) == (base.major, base.minor)
    if parse_constraints([f"^{base}"]).admits(str(other)):
        assert other >= base
        assert other.major == base.major


@pytest.mark.spec("MS-082", "MS-083")
@given(versions, versions)
def test_comparisons_partition_all_versions(bound: Version, other: Version) -> None:
    admits = {symbol: parse_constraints([f"{symbol}{bound}"]).admits(str(other)) for symbol in ("<", "=", ">")}
    assert sum(admits.values()) == 1
    assert parse_constraints([f">={bound}"]).admits(str(other)) is not admits["<"]
    assert parse_constraints([f"!={bound}"]).admits(str(other)) is not admits["="]


@given(st.text(max_size=60) | st.text("0123456789.x*-vr<>=!~^|, ", max_size=40))
def test_no_text_breaks_the_parser(text: str) -> None:
    with suppress(SelectorError):
        parse_constraint(text)
