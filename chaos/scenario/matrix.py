"""`matrix:`: one declaration, crossed into many scenarios.

    - name: commit-sweep                                  # commit-sweep-endtxn-request-lost, …
      title: "${request} under ${fault}"
      matrix:
        request: [InitProducerId, EndTxn]                 # a list of words
        fault:                                            # or names with their values
          request-lost: [{kind: lose_request, when: {request: "${request}"}}]
          sender-killed: [{kind: crash_pipeline, when: {request: "${request}"}}]
      faults: "${fault}"
      overrides:
        - {at: {request: InitProducerId}, set: {tags: [quick]}}

``${axis}`` alone becomes the value of the word; a list inside a list is inserted element by element. ``${axis.key}`` becomes a
part of that value. ``${axis.word}``, and ``${axis}`` within a longer text, become the word itself. Each of ``overrides`` has
``at``, the axes and words of the cases that it changes, and ``set``, the keys to change. Values keep their places in the file,
so that errors lead to where they were written.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from chaos.grammar.base import Location, Message, Mistake, did_you_mean, shown
from chaos.grammar.yaml_source import copied

_HOLE = re.compile(r"\$\{([^}.]*)\.?([^}]*)\}")
_MOST = 1000
_KEYS = ("at", "set")


class MatrixProblem(Exception):  # noqa: N818 - never leaves this package: `load` turns it into a ScenarioError
    """A matrix has an error."""

    def __init__(self, location: Location, message: Message, *, at_key: bool = False) -> None:
        super().__init__(message)
        self.mistake = Mistake(location, message, at_key)


def expand(tree: Any) -> Any:
    """Replace every matrix of a tree by its cases.

    Raises:
        MatrixProblem: a matrix has an error.
    """
    listed = tree.get("scenarios") if isinstance(tree, Mapping) else None
    if not isinstance(listed, CommentedSeq) or not any(_crossed(raw) for raw in listed):
        return tree
    cases = CommentedSeq()
    for number, raw in enumerate(listed):
        for case in _cases(raw, ("scenarios", number)) if _crossed(raw) else [raw]:
            cases.append(case)
            cases.lc.add_idx_line_col(len(cases) - 1, listed.lc.data[number])
    expanded = tree.copy()
    expanded["scenarios"] = cases
    return expanded


def _crossed(raw: Any) -> bool:
    return isinstance(raw, CommentedMap) and "matrix" in raw


def _cases(raw: CommentedMap, here: Location) -> Iterator[CommentedMap]:
    matrix = raw["matrix"]
    if not isinstance(matrix, Mapping) or not matrix:
        text = f"{shown(matrix)} is not a matrix; write matrix: {{request: [Produce, EndTxn]}}"
        raise MatrixProblem((*here, "matrix"), Message("not-a-matrix", text))
    axes = {str(axis): _axis(values, (*here, "matrix", str(axis))) for axis, values in matrix.items()}
    overrides = list(_overrides(raw.get("overrides", []), axes, (*here, "overrides")))
    if (cases := prod(len(values) for values in axes.values())) > _MOST:
        text = f"this makes {cases} scenarios; at most {_MOST} are allowed"
        raise MatrixProblem((*here, "matrix"), Message("too-many-scenarios", text))
    for combination in product(*(values.items() for values in axes.values())):
        words = {axis: word for axis, (word, _) in zip(axes, combination, strict=True)}
        yield _case(raw, words, {axis: value for axis, (_, value) in zip(axes, combination, strict=True)}, overrides, here)


def _axis(values: Any, here: Location) -> Mapping[str, Any]:
    """Read an axis: word -> its value."""
    if isinstance(values, Mapping) and values:
        return {_word(word): value for word, value in values.items()}
    if not isinstance(values, list) or not values or not all(isinstance(value, str | int | float) for value in values):
        text = f"{shown(values)} is not an axis; write a list of words, or a mapping from words to values"
        raise MatrixProblem(here, Message("not-an-axis", text))
    words = [_word(value) for value in values]
    for number, word in enumerate(words):
        if word in words[:number]:
            raise MatrixProblem((*here, number), Message("word-twice", f"this axis has {shown(word)} twice; keep one"))
    return dict(zip(words, values, strict=True))


def _word(value: Any) -> str:
    """Spell a word as in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _overrides(listed: Any, axes: Mapping[str, Mapping[str, Any]], here: Location) -> Iterator[Mapping[str, Any]]:
    if not isinstance(listed, list):
        text = f"{shown(listed)} is not a list; write [{{at: {{…}}, set: {{…}}}}]"
        raise MatrixProblem(here, Message("overrides-not-a-list", text))
    for number, override in enumerate(listed):
        place = (*here, number)
        if not isinstance(override, Mapping) or sorted(map(str, override)) != sorted(_KEYS):
            keys = "`at`, the coordinates of its cases, and `set`, the keys to change"
            raise MatrixProblem(place, Message("keys-of-override", f"an override has two keys: {keys}"))
        for key in _KEYS:
            if not isinstance(override[key], CommentedMap):
                text = f"{shown(override[key])} is not a mapping; write {key}: {{…}}"
                raise MatrixProblem((*place, key), Message("override-not-a-mapping", text))
        for axis, words in override["at"].items():
            _must_be_known(str(axis), axes, (*place, "at"), "an axis of this matrix")
            for word in _listed(words):
                _must_be_known(word, axes[str(axis)], (*place, "at", str(axis)), f"a value of {axis}")
        yield override


def _listed(words: Any) -> list[str]:
    """Read one word, or a list of words."""
    return [_word(word) for word in (words if isinstance(words, list) else [words])]


def _must_be_known(word: str, known: Mapping[str, Any], here: Location, wanted: str) -> None:
    if word not in known:
        text = f"{shown(word)} is not {wanted}{did_you_mean(word, known)}; there are: {', '.join(known)}"
        raise MatrixProblem(here, Message("not-in-matrix", text))


def _case(
    raw: CommentedMap,
    words: Mapping[str, str],
    values: Mapping[str, Any],
    overrides: list[Mapping[str, Any]],
    here: Location,
) -> CommentedMap:
    case: CommentedMap = copied(raw)
    case.pop("overrides", None)
    del case["matrix"]
    if isinstance(case.get("name"), str):
        case["name"] = _name(case["name"], words, (*here, "name"))
    for override in overrides:
        if all(words[str(axis)] in _listed(wanted) for axis, wanted in override["at"].items()):
            for key, value in copied(override["set"]).items():
                case[key] = value
                case.lc.add_kv_line_col(key, override["set"].lc.data[key])  # it keeps the place where it was written
    for key in list(case):
        case[key] = _filled(case[key], words, values, (*here, str(key)))
    case["matrix"] = dict(words)
    return case


def _name(name: str, words: Mapping[str, str], here: Location) -> str:
    """Append the words of all axes to the name, unless the name has holes for them."""
    template = name if _HOLE.search(name) else "-".join([name, *(f"${{{axis}}}" for axis in words)])
    for axis, _ in _HOLE.findall(template):
        _must_be_known(axis, words, here, "an axis of this matrix")
    return _HOLE.sub(lambda hole: slug(words[hole[1]]), template)


def slug(word: str) -> str:
    """Spell a word for the name of a case."""
    return re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-")


def _filled(node: Any, words: Mapping[str, str], values: Mapping[str, Any], here: Location) -> Any:
    """Fill the holes of a node; a value that fills a hole may have holes, too."""
    if isinstance(node, str):
        return _text(node, words, values, here)
    if isinstance(node, CommentedMap):
        for key in list(node):
            node[key] = _filled(node[key], words, values, (*here, str(key)))
    elif isinstance(node, CommentedSeq):
        return _spliced(node, [_filled(inner, words, values, (*here, number)) for number, inner in enumerate(node)])
    return node


def _spliced(node: CommentedSeq, filled: list[Any]) -> CommentedSeq:
    """Join the filled elements; a list that fills a hole is inserted element by element."""
    whole = CommentedSeq()
    for number, value in enumerate(filled):
        many = isinstance(value, list) and isinstance(node[number], str)
        for inner in value if many else [value]:
            whole.append(inner)
            whole.lc.add_idx_line_col(len(whole) - 1, node.lc.data[number])
    return whole


def _text(text: str, words: Mapping[str, str], values: Mapping[str, Any], here: Location) -> Any:
    for axis, _ in _HOLE.findall(text):
        _must_be_known(axis, words, here, "an axis of this matrix")
    whole = _HOLE.fullmatch(text)
    if not whole:
        return _HOLE.sub(lambda hole: _within(values[hole[1]], hole[2], words[hole[1]], here), text)
    value = _part(values[whole[1]], whole[2], words[whole[1]], here)
    rest = {axis: value for axis, value in values.items() if axis != whole[1]}  # a value must not contain itself
    return _filled(copied(value), {axis: words[axis] for axis in rest}, rest, here)


def _within(value: Any, key: str, word: str, here: Location) -> str:
    """Return the word, or the named part of its value, as a piece of a text."""
    part = _part(value, key or "word", word, here)
    if isinstance(part, Mapping | list):
        text = f"{shown(part)} cannot be inserted into a text; write `${{…}}` alone here"
        raise MatrixProblem(here, Message("value-not-a-word", text))
    return _word(part)


def _part(value: Any, key: str, word: str, here: Location) -> Any:
    """Return the value of ``${axis}``, the part of it with this key, or its word."""
    if key == "word":
        return word
    if not key:
        return value
    known = value if isinstance(value, Mapping) else {}
    _must_be_known(key, known, here, f"a key of {word}")
    return known[key]
