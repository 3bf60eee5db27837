"""Check the prose of the project: phrases that the house style retires, and American spelling.

    python tools/prose.py                 what `make lint` runs; a finding fails
    python tools/prose.py --readability   the Flesch reading ease of every page of the docs; nothing fails

It reads all Markdown without its code, the comments and docstrings of all Python files, the comments of the
Makefile and of settings, and the strings of `src`, in which only retired phrases count. Words in backticks
are code.
`# prose: allow` at the end of a line (`<!-- prose: allow -->` in Markdown) lets that line pass.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]

# Phrases of the earlier text that a reader has to translate, and what to write instead.
RETIRED = {
    r"made[- ](up|people|tables?|data|sets?|rows|persons?|patients|pictures?)": "generated or synthetic",
    r"mend(s|ed|ing)?": "fixed, corrected",
    r"is let be|are let be": "stays unchanged",
    r"(which|that) (is|are) none\b": "name what was found: 'is not a ...'",
    r"where there (is|are) none": "if there is no ...",
    r"what pays": "the ledger to charge",
    r"of its errors only the kind": "report only the exception type",
    r"is told (apart )?by": "name the rule: 'is declared', 'is identified by'",
    r"nothing .{1,20} may be heard": "silence ...",
    r"it is told\b|are told\b": "'is reported', 'are identified'",
    r"\btold from\b": "distinguished from",
    r"the more the (smaller|larger)": "two sentences",
    r"between those that (are|were)": "of the tested ones",
    r"out of (the|a) (CSV |model |saved )?(file|table|ledger|record|row)": "from",
    r"as many as are": "name the number",
    r"a number that is": "name the number",
    r"for ever": "forever",
    r"(go(es)?|went) on (from|where|by|with|without)": "continues, continued",
    r"(made|makes?|begins?|starts?) anew": "again; 'regenerate', 'restart'",
    r"cut to (a |its |their |the )?(norm|length)": "clipped to norm",
    r"(is|are) let out|lets out": "is released",
    r"house error": "the documented error, or name the class",
    r"(targets?|met): (yes|NO)": "no internal targets",
}
AMERICAN = {
    "behavior": "behaviour",
    "center": "centre",
    "color": "colour",
    "favor": "favour",
    "neighbor": "neighbour",
    "normaliz": "normalis",
    "optimiz": "optimis",
    "maximiz": "maximis",
    "minimiz": "minimis",
    "initializ": "initialis",
    "summariz": "summaris",
    "generaliz": "generalis",
    "recogniz": "recognis",
    "parametriz": "parametris",
    "regulariz": "regularis",
    "standardiz": "standardis",
    "visualiz": "visualis",
    "randomiz": "randomis",
    "discretiz": "discretis",
    "labeled": "labelled",
    "labeling": "labelling",
    "modeled": "modelled",
    "modeling": "modelling",
    "analyze": "analyse",
    "catalog ": "catalogue ",
    "gray": "grey",
    "fulfill": "fulfil",
}
_RETIRED = {re.compile(rf"\b(?:{phrase})\b", re.IGNORECASE): advice for phrase, advice in RETIRED.items()}
_AMERICAN = re.compile(rf"\b({'|'.join(map(str.strip, AMERICAN))})", re.IGNORECASE)
_ALLOW = re.compile(r"prose: allow")
_CODE = re.compile(r"``.*?``|`[^`]*`|<[^>]*>|\]\([^)]*\)|\$[^$]*\$|https?://\S+|\{[^}]*\}")
# Names of others, and titles, are written as their owners write them.
_NAMES = re.compile(
    r"Expectation Maximization|Analyze Gauss|colorbar|color=|\bcenter=|\bcenters :|normalize=|--color"
)


def prose_of_markdown(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page outside its blocks of code."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(`{3,}|~{3,}|:{3,})", line)
        if mark and mark[1][0] != ":":
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
            continue
        if not fence:
            yield number, line


def prose_of_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield comments and the lines of docstrings, without examples."""
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
        elif token.type == tokenize.STRING and before in {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}:
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                if not re.match(r"\s*(>>>|\.\.\. )", line):
                    yield number, line
        if token.type not in {tokenize.COMMENT, tokenize.NL}:
            before = token.type


def messages_of_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield the strings that are sentences: errors, warnings, help texts."""
    allowed = {number for number, line in enumerate(text.splitlines(), 1) if _ALLOW.search(line)}
    documented = {number for number, _ in prose_of_python(text)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if tokenize.tok_name[token.type] in {"STRING", "FSTRING_MIDDLE"} and " " in token.string:
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                if number not in documented | allowed:
                    yield number, line


def prose_of_settings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a Makefile, a script or a file of settings."""
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.search(r"(?:^|\s)(#.*)", line):
            yield number, match[1]


def findings(path: Path) -> Iterator[str]:
    """Yield what a file should say otherwise, with its place."""
    text = path.read_text(encoding="utf-8")
    readers = {".md": prose_of_markdown, ".py": prose_of_python}
    lines = [(*line, True) for line in readers.get(path.suffix, prose_of_settings)(text)]
    if path.is_relative_to(ROOT / "src"):
        lines += [(*line, False) for line in messages_of_python(text)]
    for number, line, is_prose in lines:
        if _ALLOW.search(line):
            continue
        plain = _NAMES.sub(" ", _CODE.sub(" ", line))
        place = f"{path.relative_to(ROOT)}:{number}"
        for phrase, advice in _RETIRED.items():
            if match := phrase.search(plain):
                yield f"{place}: {match[0]!r}; write: {advice}"
        for match in _AMERICAN.finditer(plain) if is_prose else ():
            british = next(word for key, word in AMERICAN.items() if key.strip() == match[1].lower())
            yield f"{place}: {match[0]!r}; British spelling: {british.strip()!r}"


def reading_ease(text: str) -> float:
    """Return the Flesch reading ease of a page: about 60 is plain English, below 30 is hard."""
    prose = [line for _, line in prose_of_markdown(text) if not re.match(r"\s*(\||#|<!--|\(.*\)=)", line)]
    plain = _CODE.sub(" ", " ".join(prose))
    sentences = max(1, len(re.findall(r"[.!?:](?:\s|$)", plain)))
    words = re.findall(r"[A-Za-z]+", plain)
    syllables = sum(max(1, len(re.findall(r"[aeiouy]+", word.lower().rstrip("e")))) for word in words)
    n = max(1, len(words))
    return 206.835 - 1.015 * n / sentences - 84.6 * syllables / n


def tracked(*patterns: str) -> list[Path]:
    """Return the files that git tracks."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).exists()]


def main() -> int:
    """Print findings, or the readability of each page."""
    if "--readability" in sys.argv:
        pages = tracked("docs/*.md", "README.md")
        scores = sorted((reading_ease(page.read_text(encoding="utf-8")), page) for page in pages)
        for score, page in scores:
            print(f"{score:6.1f}  {page.relative_to(ROOT)}")
        return 0
    settings = ("Makefile", ".ci/run", "*.toml", "*.yml", "*.yaml")
    left_out = {Path("tools/prose.py"), Path("tests/docs/test_prose.py")}  # they quote what they look for
    paths = [path for path in tracked("*.md", "*.py", *settings) if path.relative_to(ROOT) not in left_out]
    found = [line for path in paths for line in findings(path)]
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
