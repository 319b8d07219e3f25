"""Identity of a model in memory: a digest of its code, and of every value that the code reads.

Content counts, not the place in memory: a cell that is run again gives the same digest. What comes
from a library counts by its name. A module of the user's own counts by its file too, since the
measuring process imports it from there.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from xla_sweeps.api.border import FOREIGN
from xla_sweeps.api.written import DEFINED, UNKNOWN, written_in
from xla_sweeps.config.own_files import INSTALLED, MODEL_SUFFIXES, fingerprint_of
from xla_sweeps.config.own_imports import files_of, names_of

_ATOMS: Mapping[type, Callable[[Any], bytes]] = {
    type(None): lambda value: b"",
    bool: lambda value: b"%d" % value,
    int: lambda value: b"%x" % value,
    float: lambda value: repr(value).encode(),
    complex: lambda value: repr(value).encode(),
    str: lambda value: bytes(value.encode("utf-8", "surrogatepass")),
    bytes: bytes,
    bytearray: bytes,
}

_READS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}

_MEMBERS = {"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"}

_CODE = (
    *("co_code", "co_exceptiontable", "co_consts", "co_names", "co_varnames", "co_freevars"),
    *("co_cellvars", "co_flags", "co_argcount", "co_kwonlyargcount", "co_posonlyargcount"),
)
"""Parts of code that say what it does; the others say where it stands."""

_OF_PYTHON = {
    *("__dict__", "__weakref__", "__module__", "__doc__", "__slotnames__", "_abc_impl"),
    *("__firstlineno__", "__static_attributes__", "__builtins__", "__spec__", "__loader__"),
    "__annotations_cache__",
}
"""Names in classes and modules that Python keeps there for itself."""

_FIXED = (tuple, frozenset, types.CodeType)
"""Types of which the compiler makes one or two of the same, as it likes."""

_ARRAYS = ("numpy", "tensorflow", "jax", "jaxlib", "torch", "keras", "tf_keras")
"""Libraries whose arrays and tensors are their values; those of others may have names, an index."""


Changed = dict[tuple[str, str], Any]
"""Values that code reads in modules of the user's own, which their files write down otherwise: by
module and name. What a file computes is not known, and may be another in another process.
"""


def digest_of(
    content: Any, known: Callable[[Any], Iterable[Any] | None], changed: Changed | None = None
) -> str:
    """Sixteen hex digits of what an object is made of; what was changed is added to `changed`.

    `known` tells what that is where a library keeps more or less in an object; None elsewhere.

    Raises:
        RecursionError: something is nested too deeply.
    """
    walk = _Walk(known, {} if changed is None else changed)
    return walk.digest([tuple(sys.version_info[:2]), content]).hex()[:16]


class _Walk:
    """Digests of objects, each computed once."""

    def __init__(self, known: Callable[[Any], Iterable[Any] | None], changed: Changed) -> None:
        self._known, self._changed = known, changed
        self._written = functools.cache(
            lambda module: written_in(self._find(module), vars(sys.modules.get(module, types)))
        )
        self._done: dict[int, tuple[Any, bytes, int]] = {}
        self._count = 0
        self._open: dict[int, int] = {}
        self._find = functools.cache(_own_file)
        self._files = functools.cache(self._read_files)
        self._models = functools.cache(_read_models)

    def digest(self, value: Any) -> bytes:
        """The digest of a value; inside itself, its place on the way there.

        One that was met before counts by its number too: a layer used twice is not two alike.
        """
        kind, key = type(value), id(value)
        if kind in _ATOMS:
            files = self._models(value) if kind is str else ()
            return _hash([kind.__name__.encode(), _ATOMS[kind](value), *files])
        if key in self._done:
            _, digest, number = self._done[key]
            return digest if kind in _FIXED else _hash([b"again %d" % number, digest])
        if key in self._open:
            return b"open %d" % self._open[key]
        self._open[key] = len(self._open)
        try:
            digest = _hash([kind.__qualname__.encode(), *self._parts(value)])
        finally:
            del self._open[key]
        # The value is kept, so that no other gets its id.
        self._done[key] = value, digest, self._count
        self._count += kind not in _FIXED
        return digest

    def _apart(self, value: Any) -> bytes:
        """The digest of a member of a set, whose order is no part of it."""
        walk = _Walk(self._known, self._changed)
        walk._open, walk._written = dict(self._open), self._written
        walk._files, walk._models = self._files, self._models
        return walk.digest(value)

    def _parts(self, value: Any) -> Iterable[bytes]:
        kind = type(value)
        if kind in (list, tuple):
            return map(self.digest, value)
        if kind is dict:
            return [self.digest(each) for pair in value.items() for each in pair]
        if isinstance(value, (set, frozenset)):
            own = [] if kind in (set, frozenset) else [self.digest(kind)]
            return [*own, *sorted(map(self._apart, value))]
        try:
            return [self.digest(each) for each in self._content(value)]
        except RecursionError:
            raise
        except FOREIGN:  # a lock, say, that an imported function reads: it is not shipped
            return [b"opaque"]

    def _content(self, value: Any) -> Iterable[Any]:
        """Parts that an object is made of."""
        if isinstance(value, types.ModuleType):
            return self._module(value, frozenset())
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, types.CodeType):
            parts = {name: getattr(value, name) for name in _CODE}
            names = ("co_names", "co_varnames", "co_freevars", "co_cellvars")
            return [*(parts | {one: " ".join(parts[one]).encode() for one in names}).values()]
        if isinstance(value, types.CellType):
            return _cell(value)
        if isinstance(value, PurePath):
            return type(value), str(value)
        if isinstance(value, types.MethodType):
            return value.__func__, value.__self__
        return [type(value), *(self._known(value) or _array(value) or _pickle_parts(value))]

    def _function(self, function: types.FunctionType) -> Iterator[Any]:
        names = function.__globals__
        # A function that TensorFlow decorates is of its own module, with another's globals.
        homes = map(sys.modules.get, (function.__module__ or "", str(names.get("__name__"))))
        libraries = [module for module in homes if module and _is_library(module.__name__)]
        of_library = len(libraries) == 2 and vars(libraries[1]) is names
        yield from self._place(function)
        if of_library and _is_importable(function):
            return
        if not of_library:
            reads, members, imports = _names_in(function.__code__)
            for name in sorted(reads & names.keys()):
                read = names[name]
                is_module = isinstance(read, types.ModuleType)
                self._note(str(names.get("__name__")), name, read)
                yield name.encode(), (self._module(read, members) if is_module else read)
            package = str(names.get("__package__") or "")
            loaded = {name for one in imports for name in names_of(*one, package)}
            yield [(name, self._files(name)) for name in sorted(loaded) if self._find(name)]
        yield function.__code__, function.__defaults__, function.__kwdefaults__
        yield function.__closure__, sorted(vars(function).items())

    def _class(self, given: type) -> Iterator[Any]:
        yield from self._place(given)
        if not (_is_library(given.__module__) and _is_importable(given)):
            yield type(given), given.__bases__
            own = [(name, one) for name, one in sorted(vars(given).items()) if _is_own(name)]
            yield [(name, one) for name, one in own if one or name != "__annotations__"]

    def _place(self, code: Any) -> Iterator[Any]:
        """The name of a function or class, and the files that it is imported from."""
        yield code.__qualname__
        if _is_importable(code):
            yield code.__module__, self._files(code.__module__)

    def _module(
        self,
        module: types.ModuleType,
        members: frozenset[str],
        seen: frozenset[str] = frozenset(),
    ) -> list[Any]:
        """A module as code reads these members of it; a library's is its name."""
        name, held = module.__name__, vars(module)
        if name in seen or _is_library(name):
            return [name]
        is_file = _file_of(name) is not None or "__path__" in held
        in_memory = name != "__main__" and not (is_file and name in sys.modules)
        read = [one for one in sorted(held) if one in members or (in_memory and _is_own(one))]
        for one in read:
            self._note(name, one, held[one])
        parts = [
            (one, self._module(part, members, seen | {name}))
            if isinstance(part := held[one], types.ModuleType)
            else (one, part)
            for one in read
        ]
        return [name, self._files(name), parts]

    def _note(self, module: str, name: str, value: Any) -> None:
        """Note a value of a module whose file writes down another one."""
        written = self._written(module).get(name, UNKNOWN) if module != "__main__" else UNKNOWN
        if written is DEFINED:
            is_code = isinstance(value, (types.FunctionType, type))
            is_other = is_code and (value.__module__, value.__qualname__) != (module, name)
        else:
            kept = (type(written), repr(written))
            is_other = (
                written is not UNKNOWN and _is_flat(value) and kept != (type(value), repr(value))
            )
        if is_other:
            self._changed[module, name] = value

    def _read_files(self, module: str) -> bytes:
        """A digest of the files of a module of the user's own, and of those that it imports."""
        files = sorted(files_of(module, self._find))
        return _hash(part for name, content in files for part in (name.encode(), content))


def _is_flat(value: Any) -> bool:
    """True for a number, a text, or a container of them."""
    members = [*value, *value.values()] if type(value) is dict else value
    return type(value) in _ATOMS or (
        type(value) in (list, tuple, dict) and all(type(one) in _ATOMS for one in members)
    )


def _hash(parts: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def _read_models(text: str) -> list[bytes]:
    """Digests of the files of a model that a text names: its own, or those of a SavedModel."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        place = Path(text).expanduser()
        files = [place] if text.endswith(_MODELS) and place.is_file() else []
        if text and (place / "saved_model.pb").is_file():
            files = sorted(file for file in place.rglob("*") if file.is_file())
        return [fingerprint_of([file]).encode() for file in files]
    return []


def _cell(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # not filled yet
        return []


def _pickle_parts(value: Any) -> Iterator[Any]:
    """Parts that an object is pickled as."""
    import cloudpickle

    reduce = cloudpickle.CloudPickler.dispatch_table.get(type(value))
    reduced = reduce(value) if reduce else value.__reduce_ex__(4)
    if isinstance(reduced, str):  # a name of a module; what it wraps is in its attributes
        reduced = (str(getattr(value, "__module__", "")), reduced, getattr(value, "__dict__", {}))
    make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    if type(state) is dict:
        state = sorted(state.items(), key=lambda pair: str(pair[0]))
    yield from (make, arguments, state, list(items or ()), list(pairs or ()))


def _array(value: Any) -> list[Any] | None:
    """Type, shape, content and layout of an array or a tensor; None for anything else."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(type(value), "__array__"):
        return None
    if type(value).__module__.partition(".")[0] not in _ARRAYS:
        return None
    is_plain = type(value) is numpy.ndarray
    if isinstance(value, numpy.ndarray) and not is_plain:
        return None
    try:
        plain = value.detach().cpu() if hasattr(value, "detach") else value
        is_short = str(getattr(plain, "dtype", "")).startswith(("torch.bfloat", "torch.float8"))
        array = numpy.asarray(plain.float() if is_short else plain)  # NumPy has no such type
    except FOREIGN:
        return None
    content = array.tolist() if array.dtype.hasobject else array.tobytes()
    layout = is_plain and array.flags.fnc
    if hasattr(value, "detach"):
        layout = plain.stride(), value.requires_grad
    trained = getattr(value, "trainable", None)
    return [str(plain.dtype if is_short else array.dtype), array.shape, content, layout, trained]


_Import = tuple[int, str, tuple[str, ...]]
"""Dots, name and members of an import."""


def _names_in(code: types.CodeType) -> tuple[frozenset[str], frozenset[str], frozenset[_Import]]:
    """Globals that code reads, members of objects that it names, and its imports."""
    reads, members, imports = set[str](), set[str](), set[_Import]()
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for place, step in enumerate(steps):
        if step.opname in _READS:
            reads.add(step.argval)
        elif step.opname in _MEMBERS:
            members.add(step.argval)
        elif step.opname == "IMPORT_NAME":
            level, given = steps[place - 2].argval, steps[place - 1].argval
            imports.add((level, step.argval, given or ()))
    for constant in code.co_consts:
        if isinstance(constant, str):  # as of getattr
            members.add(constant)
        elif isinstance(constant, types.CodeType):
            inner = _names_in(constant)
            reads, members, imports = reads | inner[0], members | inner[1], imports | inner[2]
    return frozenset(reads), frozenset(members), frozenset(imports)


def _is_own(name: str) -> bool:
    return name not in _OF_PYTHON


def _is_importable(code: Any) -> bool:
    """True if a process that imports its module finds a function or class there."""
    member: Any = sys.modules.get(code.__module__ or "")
    if member is None or member.__name__ == "__main__":
        return False
    for part in code.__qualname__.split("."):
        member = getattr(member, part, None)
    return member is code


_MODELS = (*MODEL_SUFFIXES, ".pt", ".pth", ".safetensors", ".npy", ".npz")
"""Endings of files that hold a model, or its weights."""

_PYTHON_FILES = Path(os.__file__).parent


def _is_library(module: str) -> bool:
    """True for a module of Python's own, and for an installed one."""
    file, top = _file_of(module), module.partition(".")[0]
    if file is None or top == "xla_sweeps":
        return top in (*sys.stdlib_module_names, "xla_sweeps")
    return bool(INSTALLED & {*file.parts}) or file.is_relative_to(_PYTHON_FILES)


def _own_file(module: str) -> Path | None:
    """The file of a module of the user's own."""
    return None if _is_library(module) else _file_of(module)


def _file_of(module: str) -> Path | None:
    """The file of a module, loaded or not; None where it has none."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module not in sys.modules:
        with contextlib.suppress(*FOREIGN):
            first, *others = module.split(".")
            spec = importlib.util.find_spec(first)
            for name in others:  # one part, as a folder without code asks for the module above it
                places = spec.submodule_search_locations if spec else []
                spec = importlib.machinery.PathFinder.find_spec(name, list(places or []))
            file = spec.origin if spec else None
    return Path(file) if isinstance(file, str) and file not in ("built-in", "frozen") else None
