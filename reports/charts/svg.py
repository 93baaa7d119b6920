"""Figures as SVG: small, the same bytes for the same figure, with marks that a page lets answer to the mouse."""

import io
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from reports.charts import style

FONT_FILE = Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")  # It comes with Matplotlib.

# What an artist's id begins with until the SVG is finished; JSON, a key or a title follows.
_MARK, _BUTTON, _PANEL = "mark:", "button:", "panel:"

_ROOT = {"font-family": f"'{style.FONT}'", "font-size": "7px", "fill": style.INK, "text-anchor": "start"}
"""How texts look unless they say otherwise."""

_NUMBER, _NAME, _COLOR = re.compile(r"-?\d+\.\d+(?:e-?\d+)?"), re.compile(r"#(\w+)"), re.compile(r"#[0-9a-f]{6}")
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that no XML may have."""


def mark(artist: Artist, keys: Sequence[str], *tips: Mapping[str, object]) -> None:
    """Let a page pick out an artist by any of these keys, and show numbers, by their names, under the mouse.

    One tip is of the whole artist; of several, each is of one of its marks, in their order.
    """
    lines = [[f"{name}: {value}" for name, value in tip.items()] for tip in tips]
    artist.set_gid(_MARK + json.dumps([[*keys], lines]))


def button(text: Text, key: str) -> None:
    """Let a click on a text pick out the marks with this key."""
    text.set_gid(_BUTTON + key)


def panel(axes: Axes, title: str) -> None:
    """Name a panel for who can't see it."""
    axes.set_gid(_PANEL + title)


def svg(figure: Figure) -> bytes:
    """The figure as SVG: the same bytes for the same figure, without a date."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(_NO_XML.sub("\N{REPLACEMENT CHARACTER}", buffer.getvalue().decode()))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {name.rpartition("}")[2]: value for name, value in element.items()}
        element.text, element.tail = element.text if element.tag == "text" else None, None
        _shorten(element)
    shared = _definitions(root)
    for element in root.iter("g"):
        _announce(element)
    size = {name: root.get(name, "") for name in ("width", "height", "viewBox")}
    fonts = {"font-family": f"'{style.FONT}',Verdana,sans-serif", "stroke-linejoin": "round"}
    root.attrib = {"xmlns": "http://www.w3.org/2000/svg"} | size | {"style": _css(_ROOT | fonts)}
    root.append(shared)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _shorten(element: Element) -> None:
    """Round coordinates to what can be seen, and leave out what holds anyway."""
    for name in {"d", "x", "y", "width", "height", "viewBox", "transform"} & element.attrib.keys():
        value = _NUMBER.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), element.get(name, ""))
        element.set(name, re.sub(r"\s*([A-Za-z])\s*", r"\1", value).strip() if name == "d" else value)
    properties = dict(each.split(": ", 1) for each in element.get("style", "").split("; ") if each)
    properties |= {"fill": element.attrib.pop("fill")} if "fill" in element.attrib else {}
    if element.tag == "text":
        properties = {name: value for name, value in properties.items() if value != _ROOT.get(name)}
    element.attrib.pop("style", None)
    element.attrib |= {"style": _css(properties)} if properties else {}


def _css(properties: Mapping[str, str]) -> str:
    return ";".join(f"{name}:{value}" for name, value in properties.items())


def _definitions(root: Element) -> Element:
    """Take the definitions out of the figure, equal ones as one, with short names."""
    shared, names, first_of = Element("defs"), {}, {}
    for parent in [*root.iter()]:
        for child in [each for each in parent if each.tag in ("metadata", "defs")]:
            parent.remove(child)
            for each in [each for each in child if "id" in each.attrib]:
                name = each.attrib.pop("id")
                if each.tag == "path":
                    # Each mark says its style itself.
                    each.attrib.pop("style", None)
                content = ElementTree.tostring(each)
                if content not in first_of:
                    first_of[content] = f"s{len(first_of)}"
                    each.set("id", first_of[content])
                    shared.append(each)
                names[name] = first_of[content]
    for element in root.iter():
        for name in {"href", "clip-path", "style"} & element.attrib.keys():
            element.set(name, _NAME.sub(lambda found: f"#{names.get(found[1], found[1])}", element.get(name, "")))
    return shared


def _announce(element: Element) -> None:
    """Put what `mark`, `button` and `panel` noted in a group's id where a page finds it."""
    name = element.attrib.pop("id", "")
    if name.startswith(_MARK):
        keys, tips = json.loads(name.removeprefix(_MARK))
        drawn = [*element.iter("use")] or [*element.iter("path")]
        element.attrib |= {"data-key": _clean(keys)} if keys else {}
        common = [line for line in tips[0] if all(line in tip for tip in tips)] if tips else []
        element.attrib |= {"data-tip": _clean(common)} if common else {}
        if len(tips) > 1:
            for each, tip in zip(drawn, tips, strict=True):
                each.set("data-tip", _clean([line for line in tip if line not in common]))
    elif name.startswith(_BUTTON):
        key = _clean([name.removeprefix(_BUTTON)])
        element.attrib |= {"role": "button", "tabindex": "0", "aria-pressed": "false", "data-pick": key}
    elif name.startswith(_PANEL):
        element.attrib |= {"role": "group", "aria-label": _clean([name.removeprefix(_PANEL)])}
    elif name.startswith(("xtick_", "ytick_")):
        element.set("class", name[:5])


def _clean(lines: Sequence[str]) -> str:
    """Lines as one text, whatever a record's strings have in them."""
    one_each = (line.replace("\n", " ") for line in lines)
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", "\n".join(one_each))


def inlined(image: bytes, place: str, label: str) -> str:
    """A figure's SVG as a part of a page that follows the page's light or dark theme.

    Names begin with `place`, which no other figure of the page has. `label` says what the figure shows.
    """
    root = ElementTree.fromstring(image)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for name in {"href", "clip-path", "style"} & element.attrib.keys():
            value = _COLOR.sub(lambda found: _themed(found[0]), element.get(name, ""))
            element.set(name, re.sub(r"#(s\d+)\b", rf"#{place}\1", value))
        if "id" in element.attrib:
            element.set("id", place + element.attrib["id"])
    del root.attrib["width"], root.attrib["height"]
    root.attrib |= {"role": "group", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


@cache
def _themed(color: str) -> str:
    """A color of a figure by the variables of the page: strategies get lighter in the dark, parts of a step darker."""
    if color in style.NEUTRALS:
        return f"var(--{style.NEUTRALS[color]})"
    if color in style.PART_COLORS:
        return f"color-mix(in oklab,var(--paper) var(--sink),{color})"
    return f"color-mix(in oklab,white var(--lift),{color})"
