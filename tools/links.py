"""Links that lead nowhere: between the repository's pages, to its files, and inside of the built site.

    python tools/links.py            # the repository's Markdown: files and headings
    python tools/links.py FOLDER     # HTML pages: files and places; `make docs` ends with it

Addresses of other hosts are not looked up.  Ends with status 1 where a link is broken.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent


# --- Markdown ------------------------------
def in_markdown(root: Path = ROOT, brought: Collection[str] = ()) -> list[str]:
    """What is wrong with links in the Markdown files that git knows, or that stand in a folder without it.

    `brought`: pages that `tools/website.py` puts beside those of docs/site, which may link to them.
    """
    wrong = []
    for page in _pages(root):
        for target in links_of(page.read_text()):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            path = (page.parent / unquote(parts.path)) if parts.path else page
            if not path.exists():
                beside = path.is_relative_to(root / "docs" / "site") and page.parent == root / "docs" / "site"
                if not (beside and path.relative_to(page.parent).as_posix() in brought):
                    wrong.append(f"{page.relative_to(root)}: no file {target}")
            elif parts.fragment and path.suffix == ".md" and parts.fragment not in headings(path):
                wrong.append(f"{page.relative_to(root)}: no heading {target}")
    return wrong


def _pages(root: Path) -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=root, capture_output=True, text=True
    )
    if done.returncode:
        return sorted(root.rglob("*.md"))
    return [path for name in sorted(done.stdout.split()) if (path := root / name).exists()]


def links_of(text: str) -> list[str]:
    """Targets of links and pictures outside of code."""
    prose = re.sub(r"^(`{3,}|~{3,}).*?^\1`*$", "", text, flags=re.M | re.S)
    prose = re.sub(r"(`+)[^`].*?\1", "", prose)
    return re.findall(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)", prose)


@cache
def headings(path: Path) -> frozenset[str]:
    return slugs(path.read_text())


def slugs(text: str) -> frozenset[str]:
    """The places that GitHub and MyST give to headings, and those set by hand."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    counts: dict[str, int] = {}
    places = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, flags=re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        places.add(f"{slug}-{counts[slug]}" if slug in counts else slug)
        counts[slug] = counts.get(slug, 0) + 1
    return frozenset(places)


# --- HTML ------------------------------
class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (name == "name" and tag == "a"):
                self.places.add(value or "")
            elif name in ("href", "src") and value:
                self.targets.append(value)


def in_html(folder: Path) -> list[str]:
    """What is wrong with links in the pages below a folder."""
    read = {
        path: _Page(path.read_text())
        for path in sorted(folder.rglob("*.html"))
        if "_static" not in path.parts
    }
    wrong = []
    for path, page in read.items():
        for target in sorted(set(page.targets)):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not there.exists():
                wrong.append(f"{path.relative_to(folder)}: no file {target}")
            elif parts.fragment and there in read and unquote(parts.fragment) not in read[there].places:
                wrong.append(f"{path.relative_to(folder)}: no place {target}")
    return wrong


def main(arguments: list[str]) -> int:
    if arguments:
        wrong = in_html(Path(arguments[0]).resolve())
    else:
        from website import brought

        wrong = in_markdown(brought=brought())
    print(*wrong, f"{len(wrong)} broken links", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
