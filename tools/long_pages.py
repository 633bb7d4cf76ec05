"""A long page of the repository as several on the site, cut at its sections, or inside of a table at its rows."""

from __future__ import annotations

import re

from links import slugs

_LIMIT = 70_000  # characters of HTML, about; tools/website.py measures the pages


def weight(text: str) -> int:
    """About how many characters of HTML a text takes: code, cells and links are mostly markup."""
    return len(text) + 45 * text.count("`") + 25 * text.count("|") + 80 * text.count("](")


def cut(page: str, text: str) -> dict[str, str]:
    """The pages that a page becomes, by name: itself, and `page-2` and so on, which it lists at its end."""
    title = re.search(r"^# (.+)$", text, flags=re.M)
    pieces: list[str] = []
    for part in _parts(text):
        if pieces and weight(pieces[-1] + part) <= _LIMIT:
            pieces[-1] += part
        else:
            pieces.append(part)
    if len(pieces) == 1 or title is None:
        return {page: text}
    names = [page, *(f"{page}-{number}" for number in range(2, len(pieces) + 1))]
    places = {place: name for name, piece in zip(names, pieces, strict=True) for place in slugs(piece)}
    made = {}
    for number, (name, piece) in enumerate(zip(names, pieces, strict=True), 1):
        own = piece if number == 1 else f"# {title[1]}, page {number}\n\n{piece}"
        made[name] = re.sub(r"\]\(#([^)]+)\)", lambda m: f"]({places.get(m[1], page)}.md#{m[1]})", own)
    made[page] += "\n".join(
        ["", "## More pages", "", "```{toctree}", ":maxdepth: 1", "", *names[1:], "```", ""]
    )
    return made


def _parts(text: str) -> list[str]:
    """Sections, and runs of rows with the head of their table where a section is too long."""
    pieces = []
    for part in re.split(r"^(?=## )", text, flags=re.M):
        if weight(part) <= _LIMIT:
            pieces.append(part)
            continue
        table = re.search(r"^\|.*\|\n\|[-| :]+\|\n", part, flags=re.M)
        if table is None:
            pieces += re.split(r"(?<=\n\n)(?=\S)", part)
            continue
        run = part[: table.end()]
        for line in part[table.end() :].splitlines(keepends=True):
            if weight(run) > _LIMIT - 2000 and line.startswith("|"):
                pieces.append(run + "\n")
                run = "\n" + table[0]
            run += line
        pieces.append(run)
    return pieces
