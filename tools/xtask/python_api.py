"""Markdown pages about the public names of a Python package, generated only from its sources.

    python3 python_api.py PACKAGE-FOLDER OUTPUT-FOLDER

writes a page for the package and for each of its public modules, and prints their names. Nothing is imported: neither the
native module nor an optional extra needs to be there. A public name without a docstring is an error.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Found:
    """The definition of a public name: a class, a function, or a value with the docstring behind it."""

    node: ast.stmt
    docstring: str | None


class Sources:
    """The modules of a package, read on demand."""

    def __init__(self, package: Path) -> None:
        self._package = package.resolve()
        self._trees: dict[str, ast.Module] = {}

    def modules(self) -> list[str]:
        """Names of the package and of its public modules."""
        names = [self._name(path) for path in sorted(self._package.rglob("*.py"))]
        return sorted(name for name in names if not any(part.startswith("_") for part in name.split(".")))

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self._package.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def tree(self, module: str) -> ast.Module:
        """The syntax tree of a module."""
        if module not in self._trees:
            base = self._package.parent.joinpath(*module.split("."))
            file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
            self._trees[module] = ast.parse(file.read_text(encoding="utf-8"), str(file))
        return self._trees[module]

    def public(self, module: str) -> list[str]:
        """The names of ``__all__``, or all names without an underscore that the module defines."""
        body = self.tree(module).body
        for node in body:
            if isinstance(node, ast.Assign) and any(_is_name(target, "__all__") for target in node.targets):
                names = ast.literal_eval(node.value)
                return [name for name in names if not name.startswith("__")]
        defined = [node.name for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))]
        return [name for name in defined if not name.startswith("_")]

    def find(self, module: str, name: str) -> Found | None:
        """Return the definition of a name, following imports within the package."""
        body = self.tree(module).body
        for node, after in zip(body, [*body[1:], None]):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                return Found(node, ast.get_docstring(node))
            if _value_name(node) == name:
                return Found(node, _text(after))
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    source = self._absolute(module, node)
                    if (alias.asname or alias.name) == name and source.split(".")[0] == self._package.name:
                        return self._imported(source, alias.name)
        return None

    def _imported(self, source: str, name: str) -> Found | None:
        base = self._package.parent.joinpath(*source.split("."), name)
        if base.is_dir() or base.with_suffix(".py").is_file():
            return None  # a module, which has its own page
        return self.find(source, name)

    def _absolute(self, module: str, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return node.module or ""
        is_package = self._package.parent.joinpath(*module.split(".")).is_dir()
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + is_package]
        return ".".join([*parts, *([node.module] if node.module else [])])


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _value_name(node: ast.stmt) -> str | None:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def _text(node: ast.stmt | None) -> str | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return textwrap.dedent(node.value.value).strip()
    return None


def signature(name: str, node: Function, *, is_method: bool) -> str:
    """Format a call: on one line if it is short, otherwise with one line per parameter."""
    arguments = ast.parse(ast.unparse(node)).body[0].args  # type: ignore[attr-defined]
    is_static = any(_is_name(each, "staticmethod") for each in node.decorator_list)
    if is_method and not is_static:
        (arguments.posonlyargs or arguments.args).pop(0)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None and name[0].islower() else ""
    parts = _split(ast.unparse(arguments))
    whole = f"{name}({', '.join(parts)}){returns}"
    if len(whole) <= 100:
        return whole
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){returns}"])


def _split(arguments: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, character in enumerate(arguments):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(arguments[start:index].strip())
            start = index + 1
    parts.append(arguments[start:].strip())
    return [re.sub(r"^([^=]*:[^=]*)=", r"\1 = ", part) for part in parts if part]


def markdown(docstring: str) -> str:
    """Convert a docstring to Markdown, including roles, literals, examples and parameter lists."""
    lines: list[str] = []
    in_example = False
    for line in docstring.splitlines():
        if line.startswith((">>> ", "... ")) and not in_example:
            in_example = True
            lines.append("```python")
        elif in_example and not line.strip():
            in_example = False
            lines.append("```")
        lines.append(line if in_example else _inline(line))
    if in_example:
        lines.append("```")
    text = "\n".join(lines)
    # A term on its own line, with its definition indented below.
    return re.sub(r"^(`[^\n]+`)\n((?: {4}[^\n]+\n?)+)", _term, text, flags=re.MULTILINE)


def _term(found: re.Match[str]) -> str:
    said = " ".join(line.strip() for line in found[2].splitlines())
    return f"- {found[1]}: {said}\n"


def _inline(line: str) -> str:
    line = re.sub(r":[a-z]+:`~?([^`]+)`", r"`\1`", line)
    return line.replace("``", "`")


def _example(code: str) -> str:
    return f"```python\n{code}\n```"


def describe(name: str, found: Found) -> list[str]:
    """Return the part of a page about one name."""
    node = found.node
    if found.docstring is None:
        raise SystemExit(f"{name} is public and has no docstring")
    parts = [f"## {name}"]
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        parts.append(_example(_constructor(node) or f"class {name}({bases})" if bases else _constructor(node) or f"class {name}"))
        parts.append(markdown(found.docstring))
        parts += _fields(node)
        for member in node.body:
            if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)) and not member.name.startswith("_"):
                parts += _method(name, member)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        parts += [_example(signature(name, node, is_method=False)), markdown(found.docstring)]
    else:
        parts += [_example(ast.unparse(node)), markdown(found.docstring)]
    return parts


def _constructor(node: ast.ClassDef) -> str | None:
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            return signature(node.name, member, is_method=True)
    if any("dataclass" in ast.unparse(each) for each in node.decorator_list):
        fields = [member for member in node.body if isinstance(member, ast.AnnAssign)]
        shown = [ast.unparse(field) for field in fields if not ast.unparse(field.target).startswith("_")]
        whole = f"{node.name}({', '.join(shown)})"
        if len(whole) <= 100:
            return whole
        return "\n".join([f"{node.name}(", *(f"    {field}," for field in shown), ")"])
    return None


def _fields(node: ast.ClassDef) -> list[str]:
    rows = []
    for member, after in zip(node.body, [*node.body[1:], None]):
        if isinstance(member, ast.AnnAssign) and not ast.unparse(member.target).startswith("_"):
            said = _text(after)
            if said is not None:
                rows.append(f"- `{ast.unparse(member.target)}`: {_inline(' '.join(said.split()))}")
    for member in node.body:
        is_property = isinstance(member, ast.FunctionDef) and any(
            ast.unparse(each).split(".")[-1] in ("property", "cached_property") for each in member.decorator_list
        )
        if isinstance(member, ast.FunctionDef) and is_property and not member.name.startswith("_"):
            said = " ".join((ast.get_docstring(member) or "").split())
            kind = f" (`{ast.unparse(member.returns)}`)" if member.returns is not None else ""
            rows.append(f"- `{member.name}`{kind}: {_inline(said)}")
    return ["\n".join(rows)] if rows else []


def _method(owner: str, node: Function) -> list[str]:
    decorators = [ast.unparse(each).split(".")[-1] for each in node.decorator_list]
    if any(each in ("property", "cached_property", "setter", "overload") for each in decorators):
        return []
    docstring = ast.get_docstring(node)
    if docstring is None:
        raise SystemExit(f"{owner}.{node.name} is public and has no docstring")
    return [f"### {owner}.{node.name}", _example(signature(node.name, node, is_method=True)), markdown(docstring)]


def page(sources: Sources, module: str) -> str:
    """Return the page of a module."""
    docstring = ast.get_docstring(sources.tree(module))
    if docstring is None:
        raise SystemExit(f"module {module} is public and has no docstring")
    parts = [f"# {module}", markdown(docstring)]
    for name in sources.public(module):
        found = sources.find(module, name)
        if found is not None:
            parts += describe(name, found)
        elif f"{module}.{name}" in sources.modules():
            parts.append(f"[`{module}.{name}`]({module}.{name}.md) is a module.")
        else:
            raise SystemExit(f"{module}.{name} is public and its definition is not found")
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def main(arguments: list[str]) -> None:
    """Write the pages of the package in one folder into another."""
    package, into = (Path(argument) for argument in arguments)
    sources = Sources(package)
    into.mkdir(parents=True, exist_ok=True)
    for module in sources.modules():
        (into / f"{module}.md").write_text(page(sources, module), encoding="utf-8")
        print(module)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: python3 python_api.py PACKAGE-FOLDER OUTPUT-FOLDER")
    main(sys.argv[1:])
