"""Check the machine-checked proofs of `proofs/`, and write the table of docs/proofs/checked.md.

    python tools/proofs.py            what `make prove` runs: install Coq with apt if it is missing, compile,
                                      check again with coqchk, print the axioms of every theorem, and write
                                      the table
    python tools/proofs.py --no-coq   check without Coq that nothing is left unproved and the table is current

The table holds a hash of every file, so that a changed proof makes it out of date.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "proofs"
PAGE = ROOT / "docs" / "proofs" / "checked.md"
BEGIN, END = "<!-- written by make prove -->\n", "<!-- end of the table -->\n"
PACKAGES = ("coq", "libcoq-flocq")  # Debian bookworm: Coq 8.16, Flocq 4.1

# The axioms of Coq's real numbers. Any other axiom fails.
REALS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}
# Commands that would leave something unproved or switch a check off. `Context` and `Variable` may stand in
# sections, where they become premises of the theorems.
REFUSED = re.compile(
    r"\b(Admitted|admit|give_up|Abort|Axioms?|Parameters?|Conjectures?|Hypothes[ie]s|Unset\s+\w+\s+Checking"
    r"|bypass_check|native_cast_no_check|vm_cast_no_check|Declare\s+ML|Load|Redirect|Drop)\b"
)
IN_SECTIONS = re.compile(r"^\s*(Variables?|Hypothes[ie]s|Context)\b")
PREMISE = re.compile(r"^\s*(Hypothesis|Hypotheses)\b")
STATEMENT = re.compile(r"^Theorem\s+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Theorem:
    """A theorem of a file: its name and its lines, from `Theorem` to `Qed`."""

    file: str
    name: str
    first: int
    last: int


def files() -> list[Path]:
    """Return all files of proofs."""
    return sorted(FOLDER.glob("*.v"))


def without_comments(text: str) -> str:
    """Replace comments, which may be nested, by spaces."""
    kept, depth, i = [], 0, 0
    while i < len(text):
        if text.startswith("(*", i):
            depth, i = depth + 1, i + 2
        elif depth and text.startswith("*)", i):
            depth, i = depth - 1, i + 2
        else:
            kept.append(text[i] if not depth or text[i] == "\n" else " ")
            i += 1
    return "".join(kept)


def refused(path: Path) -> list[str]:
    """Return what a file must not contain: unproved statements, and premises outside sections."""
    found, depth = [], 0
    for number, line in enumerate(without_comments(path.read_text()).splitlines(), start=1):
        depth += bool(re.match(r"\s*Section\b", line)) - bool(depth and re.match(r"\s*End\b", line))
        allowed = depth > 0 and PREMISE.match(line)
        if (REFUSED.search(line) and not allowed) or (IN_SECTIONS.match(line) and depth == 0):
            found.append(f"{path.name}:{number}: {line.strip()}")
    return found


def theorems(path: Path) -> list[Theorem]:
    """Return the theorems of a file."""
    text = without_comments(path.read_text())
    found = []
    for match in STATEMENT.finditer(text):
        first = text.count("\n", 0, match.start()) + 1
        last = text.count("\n", 0, text.index("Qed.", match.end())) + 1
        found.append(Theorem(path.name, match[1], first, last))
    return found


def title(path: Path) -> str:
    """Return the beginning of a file's first comment, which names the statement."""
    comment = re.sub(r"\s+", " ", path.read_text().removeprefix("(* "))
    first = re.match(r"(?:\(S-\d+\) )?[^.:(]*", comment)
    return first[0].strip() if first else comment


def relied_on_by(path: Path) -> str:
    """Return the text after "Relied on by:" in the first comment of a file."""
    comment = path.read_text().partition("*)")[0]
    return re.sub(r"\s+", " ", comment.partition("Relied on by:")[2]).strip().rstrip(".")


def digest(path: Path) -> str:
    """Return the beginning of the hash of a file, whatever its line ends."""
    return hashlib.sha256(path.read_text(encoding="utf-8").encode()).hexdigest()[:12]


def table(axioms: dict[tuple[str, str], str]) -> str:
    """Return the table of all theorems as Markdown."""
    lines = ["| statement | file | theorem | lines | axioms |", "|---|---|---|---|---|"]
    for path in files():
        lines += [
            f"| {title(path)} | `{theorem.file}` | `{theorem.name}` | {theorem.first}-{theorem.last} | "
            f"{axioms[theorem.file, theorem.name]} |"
            for theorem in theorems(path)
        ]
    lines += ["", "| file | what relies on it | lines | hash |", "|---|---|---|---|"]
    for path in files():
        n_lines = len(path.read_text().splitlines())
        lines.append(f"| `{path.name}` | {relied_on_by(path)} | {n_lines} | {digest(path)} |")
    return "\n".join(lines) + "\n"


def written_axioms() -> dict[tuple[str, str], str]:
    """Return the axioms that the page states for every theorem."""
    rows = re.findall(
        r"^\| [^|]* \| `(\w+\.v)` \| `(\w+)` \| [^|]* \| ([^|]*) \|$", PAGE.read_text(), re.MULTILINE
    )
    return {(file, name): axioms for file, name, axioms in rows}


def check_without_coq() -> list[str]:
    """Return what is wrong with the files and the table."""
    wrong = [line for path in files() for line in refused(path)]
    _, _, rest = PAGE.read_text().partition(BEGIN)
    known = written_axioms()
    missing = [t.name for path in files() for t in theorems(path) if (t.file, t.name) not in known]
    if missing:
        wrong.append(f"docs/proofs/checked.md lacks {', '.join(missing)}: run `make prove`")
    elif rest.partition(END)[0] != table(known):
        wrong.append("docs/proofs/checked.md is out of date: run `make prove`")
    return wrong


# -- with Coq ------------------------------------------------------------------------------------


def install() -> None:
    """Install Coq with apt if it is missing."""
    has_flocq = shutil.which("coqc") and (Path(_output("coqc", "-where")) / "user-contrib" / "Flocq").exists()
    if has_flocq:
        return
    if not shutil.which("apt-get"):
        raise SystemExit(f"Expected Coq 8.16 with Flocq (Debian: {' '.join(PACKAGES)}). Install them first.")
    prefix = [] if os.geteuid() == 0 else ["sudo"]
    subprocess.run([*prefix, "apt-get", "-qq", "update"], check=True)
    command = ["apt-get", "-qq", "install", "--yes", "--no-install-recommends", *PACKAGES]
    subprocess.run([*prefix, *command], check=True, stdout=subprocess.DEVNULL)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=FOLDER).stdout.strip()


def compile_all() -> None:
    """Compile every file, in the order of their imports, and print the seconds of each."""
    print(_output("coqc", "--version").splitlines()[0])
    for name in _output("coqdep", "-sort", "-Q", ".", "DPEM", *(path.name for path in files())).split():
        begun = time.monotonic()
        subprocess.run(["coqc", "-q", "-w", "-all", "-Q", ".", "DPEM", name], check=True, cwd=FOLDER)
        print(f"  {time.monotonic() - begun:5.1f} s  {Path(name).name}", flush=True)


def check_again() -> None:
    """Check the compiled proofs, and every library that they use, with Coq's separate checker."""
    begun = time.monotonic()
    modules = [f"DPEM.{path.stem}" for path in files()]
    command = ["coqchk", "-silent", "-o", "-Q", ".", "DPEM", *modules]
    pipe, same = subprocess.PIPE, subprocess.STDOUT
    result = subprocess.run(command, cwd=FOLDER, stdout=pipe, stderr=same, text=True, check=False)
    print(result.stdout.strip())
    if result.returncode:
        raise SystemExit("coqchk failed")
    print(f"coqchk: {time.monotonic() - begun:.0f} s", flush=True)


def axioms_of_all() -> dict[tuple[str, str], str]:
    """Return the axioms of every theorem, in words; fail if one is not among those of the real numbers."""
    found: dict[tuple[str, str], str] = {}
    every = [theorem for path in files() for theorem in theorems(path)]
    program = "".join(
        f'Require DPEM.{Path(t.file).stem}.\nGoal True. idtac "@ {t.file} {t.name}". Abort.\n'
        f"Print Assumptions DPEM.{Path(t.file).stem}.{t.name}.\n"
        for t in every
    )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "axioms.v"
        source.write_text(program)
        printed = _output("coqc", "-q", "-w", "-all", "-Q", ".", "DPEM", str(source))
    for part in printed.split("@ ")[1:]:
        heading, _, rest = part.partition("\n")
        names = set(re.findall(r"^([A-Za-z]\w*\.[\w.]+)", rest, re.MULTILINE))
        if names - REALS:
            raise SystemExit(f"{heading} rests on {', '.join(sorted(names - REALS))}")
        if not names and "Closed under the global context" not in rest:
            raise SystemExit(f"Cannot read the axioms of {heading}:\n{rest}")
        file, name = heading.split()
        found[file, name] = "reals" if names else "none"
    missing = [t.name for t in every if (t.file, t.name) not in found]
    if missing:
        raise SystemExit(f"No axioms were printed for {', '.join(missing)}")
    return found


def main() -> None:
    """Check the proofs, with or without Coq."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--no-coq", action="store_true", help="check the files and the table alone")
    parser.add_argument("--check", action="store_true", help="fail instead of writing an out-of-date table")
    chosen = parser.parse_args()
    if not chosen.no_coq:
        wrong = [line for path in files() for line in refused(path)]
        if wrong:
            raise SystemExit("\n".join(["Left unproved, or a premise outside a section:", *wrong]))
        install()
        compile_all()
        check_again()
        axioms = axioms_of_all()
        for (file, name), words in axioms.items():
            print(f"  {words:5}  {file:24}  {name}")
        before, _, rest = PAGE.read_text().partition(BEGIN)
        page = before + BEGIN + table(axioms) + END + rest.partition(END)[2]
        if chosen.check and page != PAGE.read_text():
            raise SystemExit("docs/proofs/checked.md is out of date: run `make prove`")
        PAGE.write_text(page)
        print(f"{len(axioms)} theorems in {len(files())} files: proved, no axioms but those of the reals.")
    wrong = check_without_coq()
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
