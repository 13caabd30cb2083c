"""What an exported program is made of, and its form as a file.

    manifest.json          structures, types, names, versions, the hash of each member
    program.txt            the program, its constants by name
    tensors.safetensors    the constants
    rules/relu#1.jvp.txt   a derivative rule of the user's own
    vjp                    a file of the same kind: the derivative, where sizes have names

Start at :class:`Content`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from functrax.core.errors.typed import ArgumentError, FileFormatError, FunctraxError
from functrax.core.ir.jaxpr import ClosedJaxpr
from functrax.core.ir.printing import closed_jaxpr_text
from functrax.core.pytree.operations import PyTreeDef
from functrax.core.records import field, record
from functrax.core.syntax.lexer import tokenize
from functrax.core.syntax.parsing import parse
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray, dtype_from_short_name, short_dtype_name
from functrax.core.types.symbolic_scopes import (
    SymbolicScope,
    symbolic_shape,
)
from functrax.core.types.symbolic_sizes import is_symbolic_dim, recording_of
from functrax.export.archive import damaged, pack, unpack
from functrax.export.rules import (
    RuleReader,
    RuleWriter,
    check_constants,
    damaged_rule,
    with_kept_calls,
)
from functrax.export.tensors import read_tensors, write_tensors
from functrax.export.trees import tree_from_json, tree_to_json

PROGRAM: Final = "program.txt"
TENSORS: Final = "tensors.safetensors"
VJP: Final = "vjp"


@record(eq=False, frozen=False)
class Content:
    """An exported program.

    Args:
      name: of the function.
      text: the program.
      tensors: the constants, by their names in the text.
      rules: what the names of objects in the text stand for, and what is known of them.
      rule_texts: their programs, by name and what they are for.
      in_tree: the structure of ``(args, kwargs)``.
      out_tree: the structure of the results.
      in_avals: the types of the arguments' leaves.
      out_avals: the types of the results' leaves.
      arg_names: what the leaves are called.
      platforms: on which it may run.
      scope: of the sizes that have names; None if none has.
      vjp: gives the derivative, where it is kept.
    """

    name: str
    text: str
    tensors: Mapping[str, np.ndarray[Any, Any]] = field(repr=False)
    rules: Mapping[str, tuple[str, dict[str, Any]]]
    rule_texts: Mapping[tuple[str, str], str]
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    in_avals: tuple[ShapedArray, ...]
    out_avals: tuple[ShapedArray, ...]
    arg_names: tuple[str, ...]
    platforms: tuple[str, ...]
    scope: SymbolicScope | None = None
    vjp: Callable[[], Content] | None = None

    def program(self, sizes: Mapping[str, Any]) -> ClosedJaxpr:
        """The program for certain values of the sizes that have names.

        Raises:
          FileFormatError: if the text is no program.
        """
        known: dict[tuple[str, str], ClosedJaxpr] = {}

        def of_rule(name: str, purpose: str) -> ClosedJaxpr:
            found = known.get((name, purpose))
            if found is None:
                text = self.rule_texts.get((name, purpose))
                if text is None:
                    raise damaged_rule(name, f"no program {purpose}")
                found = known[name, purpose] = self._parsed(text, sizes, objects)
            return found

        objects = RuleReader(self.rules, of_rule)
        return self._parsed(self.text, sizes, objects)

    def _parsed(self, text: str, sizes: Mapping[str, Any], objects: RuleReader) -> ClosedJaxpr:
        try:
            found = parse(text, objects, self.tensors, sizes)
        except FileFormatError:
            raise
        except FunctraxError as error:
            raise FileFormatError(
                f"the program of the file cannot be read: {error.what}",
                got=error.got,
                fix="a file that functrax wrote, unchanged",
            ) from error
        if not isinstance(found, ClosedJaxpr):
            raise damaged("a program without the values of its constants")
        return found


def content_of(
    closed: ClosedJaxpr,
    *,
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    platforms: Sequence[str],
    constants: Sequence[str],
) -> Content:
    """A traced program, ready to be written.

    Args:
      closed: the program.
      in_tree: the structure of its arguments.
      out_tree: the structure of its results.
      platforms: on which it may run.
      constants: what the arrays are called that it closes over.

    Raises:
      UnavailableError: if it has what a file cannot hold.
    """
    jaxpr = with_kept_calls(closed.jaxpr)
    closed = ClosedJaxpr(jaxpr, closed.consts)
    check_constants(closed.consts, jaxpr.name)
    writer = RuleWriter()
    writer.collect(jaxpr)
    scope = recording_of([tuple(a.shape) for a in jaxpr.in_avals])
    tensors: dict[str, np.ndarray[Any, Any]] = {}

    def text_of(program: ClosedJaxpr, names: Sequence[str]) -> str:
        for name, value in zip(names, program.consts, strict=True):
            tensors[name] = np.asarray(value)
        return _renamed(closed_jaxpr_text(program, tensors=names), writer.names)

    text = text_of(closed, constants)
    rule_texts = {
        (name, purpose): text_of(
            program, [f"{name}.{purpose}.{n}" for n in range(len(program.consts))]
        )
        for name, rule in writer.rules.items()
        for purpose, program in rule.programs.items()
    }
    return Content(
        jaxpr.name, text, tensors,
        {name: (rule.kind, rule.about) for name, rule in writer.rules.items()}, rule_texts,
        in_tree, out_tree, tuple(jaxpr.in_avals), tuple(jaxpr.out_avals),
        tuple(jaxpr.arg_names or [str(n) for n in range(len(jaxpr.invars))]), tuple(platforms),
        scope if isinstance(scope, SymbolicScope) else None,
    )  # fmt: skip


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """A program's text with other names of objects."""
    if not names:
        return text
    out, at = [], 0
    for token in tokenize(text)[0]:
        if token.kind == "object":
            out += [text[at : token.start], f"@{names[token.text[1:]]}"]
            at = token.start + len(token.text)
    return "".join([*out, text[at:]])


# ---- files --------------------------------------------------------------------------------------


def write_content(content: Content, vjp: bytes | None) -> bytes:
    """A program as the bytes of a file, with its derivative's if there are any.

    Raises:
      PyTreeError: if its trees have nodes that files do not have.
    """
    scope = content.scope
    manifest: dict[str, Any] = {
        "functrax": sys.modules["functrax"].__version__,
        "name": content.name,
        "inputs": [
            {"name": name, "type": _type_text(aval)}
            for name, aval in zip(content.arg_names, content.in_avals, strict=True)
        ],
        "outputs": [_type_text(aval) for aval in content.out_avals],
        "in_tree": tree_to_json(content.in_tree),
        "out_tree": tree_to_json(content.out_tree),
        "platforms": list(content.platforms),
    }
    if scope is not None:
        manifest["sizes"] = {"names": list(scope.names), "constraints": scope.constraints}
    if content.rules:
        manifest["rules"] = {
            name: {"kind": kind, **about} for name, (kind, about) in content.rules.items()
        }
    members = {PROGRAM: content.text.encode()}
    if content.tensors:
        members[TENSORS] = write_tensors(content.tensors)
    for (name, purpose), text in content.rule_texts.items():
        members[f"rules/{name}.{purpose}.txt"] = text.encode()
    if vjp is not None:
        members[VJP] = vjp
    return pack(manifest, members)


def read_content(data: bytes) -> Content:
    """The program of a file; nothing of it is run.

    Raises:
      FileFormatError: if it is damaged, of another format, or of a newer functrax.
    """
    manifest, members = unpack(data)
    try:
        return _content(manifest, members)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise damaged(f"manifest.json: {type(error).__name__}: {error}") from None


def _content(manifest: dict[str, Any], members: dict[str, bytes]) -> Content:
    scope = None
    if "sizes" in manifest:
        scope = SymbolicScope(_texts(manifest["sizes"]["constraints"]))
        for name in _texts(manifest["sizes"]["names"]):
            scope.size(name)
    rules = dict(manifest.get("rules", {}))
    about = {name: (kind, rest) for name, kind, rest in map(_rule, rules.items())}
    texts = {}
    for member in members:
        if member.startswith("rules/"):
            name, purpose, end = member.removeprefix("rules/").rsplit(".", 2)
            if end != "txt" or name not in about:
                raise damaged(f"a member {member!r}")
            texts[name, purpose] = members[member].decode()
        elif member not in (PROGRAM, TENSORS, VJP):
            raise damaged(f"a member {member!r}")
    tensors = read_tensors(members[TENSORS])[0] if TENSORS in members else {}
    inner = members.get(VJP)
    content = Content(
        _text(manifest["name"]), members[PROGRAM].decode(), tensors, about, texts,
        tree_from_json(manifest["in_tree"]), tree_from_json(manifest["out_tree"]),
        tuple([_type(x["type"], scope) for x in manifest["inputs"]]),
        tuple([_type(x, scope) for x in manifest["outputs"]]),
        tuple([_text(x["name"]) for x in manifest["inputs"]]),
        tuple(_texts(manifest["platforms"])), scope,
        None if inner is None else lambda: read_content(inner),
    )  # fmt: skip
    for tree, avals in (
        (content.in_tree, content.in_avals),
        (content.out_tree, content.out_avals),
    ):
        if tree.num_leaves != len(avals):
            raise damaged(f"a structure of {tree.num_leaves} leaves for {len(avals)} types")
    if scope is None:
        _check_types(content)
    return content


def _check_types(content: Content) -> None:
    """Refuse a file whose program is not of the types that it declares."""
    jaxpr = content.program({}).jaxpr
    declared = [
        tuple([a for a in avals if a.dtype != dtypes.float0])
        for avals in (content.in_avals, content.out_avals)
    ]
    if [tuple(jaxpr.in_avals), tuple(jaxpr.out_avals)] != declared:
        raise damaged("a program of other types than manifest.json says")


def _rule(item: tuple[str, Any]) -> tuple[str, str, dict[str, Any]]:
    name, about = item
    kind = about["kind"]
    if kind not in RuleReader.KINDS:
        raise damaged(f"a rule of kind {kind!r}")
    return name, kind, {key: x for key, x in about.items() if key != "kind"}


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise damaged(f"{found!r} in the place of a text")
    return found


def _texts(found: Any) -> list[str]:
    if not isinstance(found, list):
        raise damaged(f"{found!r} in the place of texts")
    return [_text(x) for x in found]


def _type_text(aval: ShapedArray) -> str:
    weak = "~" if aval.weak_type else ""
    return f"{weak}{short_dtype_name(aval.dtype)}[{', '.join(map(str, aval.shape))}]"


def _type(text: Any, scope: SymbolicScope | None) -> ShapedArray:
    words = _text(text)
    name, bracket, sizes = words.removeprefix("~").partition("[")
    if not bracket or not sizes.endswith("]"):
        raise damaged(f"{text!r} in the place of a type")
    try:
        shape = symbolic_shape(sizes[:-1], scope=scope or SymbolicScope())
        dtype = dtype_from_short_name(name)
    except ArgumentError as error:
        raise damaged(f"{text!r} in the place of a type: {error.got}") from None
    if scope is None and any(is_symbolic_dim(n) for n in shape):
        raise damaged(f"{text!r}: a size with a name that is not declared")
    return ShapedArray(shape, dtype, words.startswith("~"))
