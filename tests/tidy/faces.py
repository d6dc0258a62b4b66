"""The types of the blocking clients, which follow those of the asyncio clients.

At run time `client/faces.py` makes each blocking call out of a coroutine. Type checkers and editors read
`client/faces.pyi`, which `make docs` writes.
"""

import ast
import inspect
import sys
from textwrap import dedent
from types import ModuleType

from rookery.client.admin import Admin
from rookery.client.consumer import Consumer
from tests.tidy.source import ROOT

PATH = ROOT / "client" / "faces.pyi"
HEAD = '''"""Types of the blocking clients. Generated: ``make docs``."""

'''
LEFT_OUT = {"start", "close", "run"}
"""Calls that the blocking classes write themselves, and what is for the client's own parts."""
EXTRA = {
    "Consumer": """    def __init__(
        self, *topics: str | Mapping[str, Any], listener: RebalanceListener | None = None, **options: Any
    ) -> None: ...
    def __iter__(self) -> Iterator[AnyRecord]: ...
    def run(
        self,
        handler: Callable[[AnyRecord], object],
        *,
        concurrency: int = 16,
        order_by: str | Callable[[AnyRecord], Hashable] | None = "key",
        shutdown_timeout_s: float = 20.0,
    ) -> None: ...
""",
    "Admin": """    def __init__(self, options: Mapping[str, Any] | None = None, /, **keywords: Any) -> None: ...
""",
}
ALWAYS = {"Any": "typing", "Callable": "collections.abc", "Hashable": "collections.abc", "Iterator": "collections.abc"}
FIXED = {
    "AnyRecord": "rookery.client.consumer.deserializing",
    "BlockingResult": "rookery.client.blocking",
    "BlockingClient": "rookery.client.blocking",
    "Mapping": "collections.abc",
    "RebalanceListener": "rookery.client.consumer.listener",
}


class Blocking(ast.NodeTransformer):
    """Types as blocking callers see them."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.value) in ("asyncio.Task", "Task"):
            node.value = ast.Name("BlockingResult")
        elif isinstance(node.value, ast.Name) and node.value.id == "AsyncIterator":
            node.value = ast.Name("Iterator")
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A type in quotes."""
        if not isinstance(node.value, str):
            return node
        parsed: ast.AST = self.visit(ast.parse(node.value, mode="eval").body)
        return parsed


def _calls(kind: type) -> dict[str, tuple[ast.FunctionDef | ast.AsyncFunctionDef, ModuleType]]:
    found = {}
    for each in reversed(kind.__mro__):
        module = sys.modules[each.__module__]
        if not each.__module__.startswith("rookery."):
            continue
        [tree] = ast.parse(inspect.getsource(each)).body
        assert isinstance(tree, ast.ClassDef)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                found[node.name] = node, module
    return dict(sorted(found.items()))


def _typed(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg):
        if argument is not None and argument.annotation is not None:
            argument.annotation = Blocking().visit(argument.annotation)
    assert node.returns is not None, node.name
    returns = ast.unparse(Blocking().visit(node.returns))
    names = [each.id for each in node.decorator_list if isinstance(each, ast.Name)]
    lines = ["    @property"] if "property" in names else []
    lines.append(f"    def {node.name}({ast.unparse(node.args)}) -> {returns}: ...")
    return "\n".join(lines)


def _origin(name: str, module: ModuleType) -> str | None:
    """The module that a name of an annotation is imported from; empty if it is a module itself."""
    if name in FIXED:
        return FIXED[name]
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ImportFrom) and any((each.asname or each.name) == name for each in node.names):
            return node.module
        if isinstance(node, ast.Import) and any(each.name == name for each in node.names):
            return ""
    return module.__name__ if name in vars(module) else None


def text() -> str:
    imports = {**ALWAYS, **FIXED}
    classes = []
    for kind in (Admin, Consumer):
        lines = [f"class {kind.__name__}(BlockingClient):", EXTRA[kind.__name__].rstrip()]
        for name, (node, module) in _calls(kind).items():
            if name in LEFT_OUT:
                continue
            line = _typed(node)
            lines.append(line)
            for each in ast.walk(ast.parse(dedent(line))):
                if isinstance(each, ast.Name) and (origin := _origin(each.id, module)) is not None:
                    imports[each.id] = origin
        classes.append("\n".join(lines))
    origins: dict[str, set[str]] = {}
    for name, origin in imports.items():
        origins.setdefault(origin, set()).add(name)
    origins["rookery.client.blocking_producer"] = {"BlockingDelivery", "BlockingProducer"}
    top = [
        f"{f'from {origin} ' if origin else ''}import {', '.join(sorted(names))}"
        for origin, names in sorted(origins.items())
    ]
    everything = 'Producer = BlockingProducer\n__all__ = ["Admin", "BlockingDelivery", "Consumer", "Producer"]'
    return HEAD + "\n".join([*top, "", everything, "", "\n\n".join(classes)]) + "\n"
