"""Each kind has a page among the concepts, with a picture of what there is."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from support.shown import DOCS, objects

from aim_domain import kinds as domain
from aim_domain.kinds import OWN_KINDS
from aim_packaging.reference.drawing import Box, Edge, Look, Picture, svg
from aim_packaging.reference.pictures import PICTURES
from controller_runtime import Kind
from controller_runtime import kinds as kubernetes

PAGES = {page.stem: page for page in (DOCS / "concepts").glob("*.md")}
NO_KINDS = {"you", "registry", "Hub or bucket"}
SPACE = "{http://www.w3.org/2000/svg}"


def pages_of(kind: str) -> list[str]:
    """The pages whose title names a kind."""
    return [
        stem for stem, page in PAGES.items() if kind in re.split(r"[ ,#\n]+", page.read_text("utf-8").split("\n")[0])
    ]


@pytest.mark.spec("FW-695")
@pytest.mark.parametrize("kind", OWN_KINDS, ids=lambda kind: kind.singular)
def test_each_kind_has_a_page(kind: Kind[Any]) -> None:
    (page,) = pages_of(kind.kind)
    text = PAGES[page].read_text("utf-8")
    assert f"(../reference/api/{kind.singular}.md)" in text
    assert f"(../reference/pictures/{page}.svg)" in text
    assert f"(concepts/{page}.md)" in (DOCS / "concepts.md").read_text("utf-8")
    assert page in {shown["kind"].lower() for shown in objects(PAGES[page])}


@pytest.mark.spec("FW-695")
@pytest.mark.parametrize("name", PICTURES)
def test_pictures_name_what_there_is(name: str) -> None:
    known = {one.kind for module in (domain, kubernetes) for one in vars(module).values() if isinstance(one, Kind)}
    boxes = [box for column in PICTURES[name].columns for box in column]
    assert {box.name for box in boxes} <= known | NO_KINDS
    assert [box.name for box in boxes if box.look is Look.SUBJECT], "a picture is about something"
    assert {end for edge in PICTURES[name].edges for end in (edge.start, edge.end)} == {box.name for box in boxes}


@pytest.mark.spec("FW-695")
def test_a_picture_is_well_formed_says_its_title_and_keeps_boxes_apart() -> None:
    columns = ((Box("a"), Box("b", "<note>", Look.SUBJECT)), (Box("c", "", Look.OTHER),))
    root = ET.fromstring(svg(Picture("a & b", columns, (Edge("a", "c", "word"), Edge("a", "b"), Edge("c", "b")))))
    assert root.findtext(f"{SPACE}title") == "a & b"
    assert [one.text for one in root.iter(f"{SPACE}text")] == ["a", "b", "<note>", "c", "word"]
    rects = [one for one in root.iter(f"{SPACE}rect") if one.get("class") in {"box", "subject", "other"}]
    (left, top), (_, second), (right, _) = ((float(one.get("x", "")), float(one.get("y", ""))) for one in rects)
    assert second - top >= float(rects[0].get("height", "0"))
    assert right - left >= float(rects[0].get("width", "0"))
    assert len(root.findall(f"{SPACE}path")) == 3
