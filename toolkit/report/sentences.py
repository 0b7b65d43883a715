"""The description of a capture as an HTML page: sentences whose frames and streams link to what they name."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from toolkit.report.assets import asset, environment
from toolkit.report.html import GENERATOR, Provenance
from toolkit.report.rows import Arrow
from toolkit.report.text import printable

_CITED = re.compile(r"(?i)\b(frame|stream)s? \d+(?:(?:, | to )\d+\b)*")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A TCP connection of a capture."""

    number: int
    between: str
    """Names and addresses of its ends."""
    ended: str
    """The end of the connection, as text."""


@dataclass(frozen=True, slots=True)
class _Section:
    heading: str
    sentences: list[Markup]


def render_sentences(
    lines: Sequence[str],
    arrows: Iterable[Arrow],
    streams: Iterable[StreamRow],
    title: str,
    provenance: Provenance,
) -> str:
    """Return the page: the description, and below it the frames and streams that it names.

    Args:
        lines: the description as text; a line that is not indented is the heading of those below it.
        arrows: the frames of the capture.
        streams: its connections.
        title: heading of the page.
        provenance: origin of the page, for the footer.
    """
    named = {kind: _numbers(lines, kind) for kind in ("frame", "stream")}
    frames = {arrow.frame: arrow for arrow in arrows if arrow.frame is not None and arrow.frame in named["frame"]}
    rows = {row.number: row for row in streams if row.number in named["stream"]}
    known = {"frame": frames.keys(), "stream": rows.keys()}
    sections = [_Section("", [])]
    for line in map(printable, lines):
        if line.startswith(" ") or not sections[0].sentences:
            sections[-1].sentences.append(_linked(line.strip(), known))
        elif line:
            sections.append(_Section(line, []))
    template = environment().get_template("sentences.html.j2")
    return template.render(
        title=title,
        generator=GENERATOR,
        style=Markup(asset("report.css")),  # noqa: S704 - the project's own style sheet
        sections=sections,
        frames=sorted(frames.items()),
        streams=sorted(rows.items()),
        provenance=provenance,
    )


def _numbers(lines: Iterable[str], kind: str) -> set[int]:
    """Return the numbers of the frames or streams that the lines name."""
    cited = (match for line in lines for match in _CITED.finditer(line) if match[1].lower() == kind)
    return {int(number) for match in cited for number in _NUMBER.findall(match[0])}


def _linked(sentence: str, known: Mapping[str, Container[int]]) -> Markup:
    """Return a sentence in which the numbers of known frames and streams are links."""
    parts, end = Markup(), 0
    for match in _CITED.finditer(sentence):
        kind = match[1].lower()
        for number in _NUMBER.finditer(sentence, *match.span()):
            if int(number[0]) in known[kind]:
                link = Markup('<a href="#{}-{}">{}</a>').format(kind, int(number[0]), number[0])
                parts += escape(sentence[end : number.start()]) + link
                end = number.end()
    return parts + escape(sentence[end:])
