"""Words that the project avoids, with what to write instead, and how often each folder has them.

``python tests/tidy/words.py`` prints the count of each folder and of each word;
``python tests/tidy/words.py docs/guide`` prints where they are.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = {".md", ".py", ".pyx", ".pxd", ".pxi", ".pyi", ".h"}
THIS = {Path("tests/tidy/words.py"), Path("tests/tidy/test_words.py")}

# A pattern, and what to write instead. Each is a word of everyday speech or of an older version
# of this project, for which operators and Kafka's developers have a word of their own.
INSTEAD = {
    r"\b(?:told|tell|tells|telling)\b": "report, say, state, warn, show, distinguish",
    r"\banew\b": "again; rebuild, rewrite, recreate",
    r"\bnobody(?:'s)?\b": "no process; unrecognized",
    r"\bwhoever\b": "any process that, a reader that",
    r"\bgone by\b": "trusted, used",
    r"\bspeaks? against\b": "contradicts",
    r"\bmade of\b": "consists of, contains",
    r"\b(?:is|are|was|were) (?:not )?(?:there|here)\b(?! (?:an?|no|any)\b)": "exists, is present",
    r"(?<!\bin[ -])(?<!\btakes )(?<!\btake )\bplaces?\b": "position, offset, log dir, partition",
    r"\bpieces?\b": "chunk, slice, range, fragment",
    r"\bwhole\b(?! (?:number|program)s?)": "complete, entire, all of",
    r"\bwholly\b": "completely",
    r"\bsettled\b": "committed, resolved, final",
    # `make strangers` and its package are names; in a sentence they are clients.
    r"(?<![/`])(?<!from )(?<!make )(?<!-m )(?<!out\" / \")(?<!cache\" / \")"
    r"\bstrangers?\b(?!\.)": "client; unrecognized directory",
    r"\bmend(?:s|ed|ing)?\b": "fix, repair, finish",
    r"\bamid\b": "during",
    r"\bh[au]ngs? on\b": "depends on",
    r"\bas ever\b": "as before, unchanged",
    r"\b(?:go|goes|going|went) on\b": "continue",
    r"\bput(?:s|ting)? together\b": "combine, merge, assemble",
    r"\b(?:lets?|letting) go\b": "release, delete",
    r"\bsomebody\b": "another process, the user",
    r"\bfrom outside\b": "from a client, from a file",
    r"\bdeeds?\b": "operation",
    r"\bcomes? again\b": "is repeated",
    r"\b(?:takes?|took|taken|taking) back\b": "undo",
    r"\bgo(?:es)? by\b": "uses, follows",
    r"\bunder way\b": "in progress, running",
    r"\bcut short\b": "interrupted",
    r"\bleft out\b": "skipped, omitted",
    r"\bpassed over\b": "skip, ignore",
    r"\bspoilt\b": "corrupt",
    r"\blook(?:s|ed) at\b": "check, read, inspect",
    r"\bfor ever\b": "forever, without limit",
    r"\b(?:calls?|copies|copy|moves?|requests?) in work\b": "in progress, outstanding",
    r"\bbehind the last\b": "after the last",
    r"\boffsets? behind\b": "the offset after",
    r"\bcounts? before\b": "takes precedence over, overrides",
    r"\bmay everything\b": "is allowed everything",
    r"\bwho it is\b": "authenticates; its principal",
    r"\bmade again\b": "recreated, rebuilt",
    r"\band (?:its|their) like\b": "such as",
    r"\bwhat there is\b": "the available bytes, the current results",
    r"\bin the words of\b": "the format of, the messages of",
    r"\bthat came\b": "received, that arrived; later",
    r"\bof (?:Kafka|Spark|kstore)'s(?=[,.;:)]| (?:that|which|is|are|and|or|with|in|on|to|by)\b)": (
        "Kafka's X, or: X of Kafka"
    ),
}
# Every pattern begins with a word, which keeps the search fast.
AVOIDED = re.compile(rf"\b(?=\w)(?:{'|'.join(INSTEAD)})", re.IGNORECASE)
# Names that exist outside this repository: the public API, keys of JSON, and methods of Python.
FROZEN = re.compile(
    r"\.tell\(|(?:\.|def )settled\b|(?:\.|def |    )strangers\b|"
    '"(?:strangers|pieces|place|anew)"'
)
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_GENERATED = re.compile(r"<!-- goals\.py writes from here -->.*?<!-- to here -->", re.DOTALL)


def prose(path: Path) -> str:
    """A file's text without frozen names; a page also without its examples and generated table."""
    text = FROZEN.sub(lambda found: " " * len(found[0]), path.read_text())
    if path.suffix != ".md":
        return text
    for skipped in (_FENCE, _GENERATED):
        text = skipped.sub(lambda found: "\n" * found[0].count("\n"), text)
    return text


def avoided_words(text: str) -> list[tuple[int, str]]:
    """Line and word, in order."""
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    found_words = []
    line = 0
    for found in AVOIDED.finditer(text):
        while line + 1 < len(starts) and starts[line + 1] <= found.start():
            line += 1
        found_words.append((line + 1, found[0]))
    return found_words


def advice(word: str) -> str:
    """What to write instead of a word that was found."""
    return next(
        instead
        for pattern, instead in INSTEAD.items()
        if re.search(pattern, word, re.IGNORECASE) or re.match(pattern, word + ".", re.IGNORECASE)
    )


def files(folder: str) -> Iterator[Path]:
    """The text files of a folder, or the one file of that name."""
    root = ROOT / folder
    for path in [root] if root.is_file() else sorted(root.rglob("*")):
        if path.suffix in SUFFIXES and path.relative_to(ROOT) not in THIS:
            yield path


def main(folders: list[str]) -> None:
    words: Counter[str] = Counter()
    for folder in folders or ["README.md", "docs", "src", "tests", "benchmarks"]:
        count = 0
        for path in files(folder):
            for line, word in avoided_words(prose(path)):
                count += 1
                words[word.lower()] += 1
                if len(folders) == 1:
                    print(f"{path.relative_to(ROOT)}:{line}: {word} ({advice(word)})")
        print(f"{count:6} {folder}")
    print(*(f"{count} {word}" for word, count in words.most_common()), sep=", ")


if __name__ == "__main__":
    main(sys.argv[1:])
