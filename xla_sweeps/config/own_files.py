"""Files of the user's own model: what they hold, read without running or importing anything.

What is refused is a `ConfigError` that begins with `where`, the option that names the file.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import re
import shlex
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from xla_sweeps.config import own_imports
from xla_sweeps.errors import ConfigError, unknown_name

MODEL_SUFFIXES = (".keras", ".h5", ".hdf5")

SEARCHED: ContextVar[tuple[str, ...]] = ContextVar("SEARCHED", default=())
"""Folders in which a model's module is looked for before those of this process."""

_UNREAD = {
    **dict.fromkeys((".onnx", ".tflite"), "not read; convert the model to Keras"),
    **dict.fromkeys(
        (".pt", ".pth", ".safetensors"),
        "weights or a pickled module; write a function that builds the module and loads them: "
        "path=net.py:build backend=torch",
    ),
}
"""Advice on files of models that are not read, by suffix."""

_HDF5 = b"\x89HDF\r\n\x1a\n"

_OPEN = {"__getattr__", "globals", "locals", "vars", "setattr", "exec", "*"}
"""Words of a source whose names cannot all be told by reading it."""

_MAX_CONFIG_BYTES = 2**26

IMAGE_SIZES = 3
"""Height, width and channels."""

INSTALLED = {"site-packages", "dist-packages"}
"""Folders of what is installed."""

_LIBRARIES = {"keras", "tensorflow", "tf_keras", "numpy", *sys.stdlib_module_names}


def own_model_hint(given: str) -> str:
    """Words for a name that is a model of the user's own, or "" for any other."""
    path, shown = Path(given), shlex.quote(given)
    if path.suffix.lower() in _UNREAD:
        return f"{path.suffix} files are {_UNREAD[path.suffix.lower()]}"
    is_own = path.suffix in (*MODEL_SUFFIXES, ".py")
    is_own |= ":" in given and all(map(str.isidentifier, given.rpartition(":")[2].split(".")))
    with contextlib.suppress(OSError, ValueError, ConfigError):
        is_own |= (path / "saved_model.pb").is_file()
        if path.suffix == ".py" and path.is_file():
            shown += f":{(*_Source.read(path, given).functions, 'build')[0]}"
    return f"A model of your own: model=local path={shown} trust_code=true" if is_own else ""


def check_model_file(path: Path, where: str) -> None:
    """Refuse a file of weights, or one that is no Keras file."""
    if path.suffix == ".keras":
        if not zipfile.is_zipfile(path):
            raise ConfigError(f"{where}: not a Keras file: it is no ZIP, or it is cut off")
        return
    with path.open("rb") as file:
        if file.read(len(_HDF5)) != _HDF5:
            raise ConfigError(f"{where}: not a Keras file: it does not begin as HDF5 does")
        rest = b""
        while block := file.read(1 << 20):
            if b"model_config" in rest + block:
                return
            rest = block[-16:]
    raise ConfigError(
        f"{where}: holds weights without a model; write a function that builds the model and loads "
        "them: path=my_models.py:build"
    )


def config_of(path: Path, where: str) -> Any:
    """The configuration in a Keras file; None of another format, or of a very large one."""
    if path.suffix != ".keras":
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo("config.json").file_size > _MAX_CONFIG_BYTES:
                return None
            return json.loads(archive.read("config.json"))
    except (OSError, KeyError, ValueError, RecursionError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{where}: not a Keras file: its config.json cannot be read") from error


def check_sizes(config: Any, resolution: int | None, where: str) -> None:
    """Refuse a Keras file whose inputs have sizes that are left open; says the inputs to paste."""
    sizes_of_each = declared_sizes(config, resolution) or []
    inputs = _inputs_of(config) if sizes_of_each else []
    for (name, *_), sizes in zip(inputs, sizes_of_each, strict=True):
        is_image = len(sizes) == IMAGE_SIZES
        if None in sizes:
            shown = ", ".join("free" if size is None else str(size) for size in sizes)
            every = [as_input_spec(one, shape[1:], dtype) for one, shape, dtype in inputs]
            raise ConfigError(
                f"{where}: the input {name} ({shown}) has free sizes; give "
                f"{'resolution=224, or ' if is_image else ''}every input, with your sizes: "
                f"'input_spec=[{','.join(every)}]'"
            )


def declared_sizes(config: Any, resolution: int | None) -> list[list[Any]] | None:
    """Sizes of each input that a Keras file declares, without the batch; None if it does not.

    The resolution (px) stands for the sides of a picture.
    """
    try:
        every = [sizes for _, (_, *sizes), _ in _inputs_of(config)]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    for sizes in every:
        if len(sizes) == IMAGE_SIZES and resolution is not None:
            sizes[:2] = resolution, resolution
    return every or None


def _inputs_of(config: Any) -> list[tuple[str, list[Any], str]]:
    """Name, shape with the batch, and dtype of each input that a Keras file declares."""
    declared = str(config["config"].get("input_layers", ""))
    parts = config["config"]["layers"]
    layers = [part["config"] for part in parts if part["class_name"] == "InputLayer"]
    return [
        (one["name"], one.get("batch_shape") or one["batch_input_shape"], str(one["dtype"]))
        for one in layers
        if config["class_name"] == "Sequential" or repr(one["name"]) in declared
    ]


def as_input_spec(name: str, sizes: Sequence[int | None], dtype: str) -> str:
    """An input, which may have no name, as an entry of `input_spec`; open sizes are filled in."""
    common = 224 if len(sizes) == IMAGE_SIZES else 128
    shape = ",".join(str(common if size is None else size) for size in sizes)
    named = f"name:{name}," if name else ""
    return f"{{{named}shape:[{shape}],dtype:{dtype}}}"


def find_source(module: str, where: str) -> Path:
    """The file of a module, found without importing anything; the current folder comes first."""
    if module.endswith(".py"):
        file = Path(module).expanduser()
        if not file.is_file():
            raise ConfigError(f"{where}: no such file: {module}")
        return file
    if found := _find_module(module):
        return found
    raise ConfigError(f"{where}: no module '{module}' in the current folder or installed")


def _find_module(name: str, *first: str) -> Path | None:
    inner, folders = Path(*name.split(".")), (*first, ".", *SEARCHED.get(), *sys.path)
    places = (inner / "__init__.py", inner.with_suffix(".py"))  # as Python prefers them
    files = (Path(folder, place) for folder in folders for place in places)
    return next(filter(Path.is_file, files), None)


def imported_by(source: Path) -> list[Path]:
    """Files of the user's own that a source imports, and these in turn, in a fixed order."""
    file = source.resolve()
    dots = own_imports.dots_of(file)
    root = own_imports.folder_above(file, dots)
    first = (str(root), str(file.parent)) if dots else (str(file.parent), str(root))
    own = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")

    @cache
    def find(name: str) -> Path | None:
        if name == own:
            return file
        top = name.partition(".")[0]
        if top in _LIBRARIES or top == "xla_sweeps":
            return None
        above = find(own_imports.parent_of(name)) if "." in name else None
        if above and above.stem != "__init__":  # a member of it
            return None
        place = _find_module(name, *first)
        return None if place is None or INSTALLED & {*place.parts} else place

    others = sorted(name for name, _ in own_imports.files_of(own, find) if name != own)
    return list(filter(None, map(find, others)))


def fingerprint_of(files: Iterable[Path], *, below: Path | None = None) -> str:
    """Sixteen hex digits of the files' names and contents."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(below)).encode() if below else b"")
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]


def check_custom_layers(config: Any, source: Path | None, where: str) -> None:
    """Refuse a Keras file with custom layers that neither `import=` nor another module has."""
    code = _Source.read(source, f"import={source}") if source else None
    if code and (code.is_open or code.imported - _LIBRARIES):
        return
    for name, module in _classes(config):
        package = module.partition(".")[0]
        is_known = package in (*_LIBRARIES, "builtins") or _find_module(package) is not None
        if not is_known and (code is None or name not in code.words):
            place = f"import={source} does not have it" if source else "add import=my_layers.py"
            raise ConfigError(
                f"{where}: unknown layer '{name}' of the module {module}; give the module or file "
                f"that has it: {place}"
            )


def check_function(path: Path, function: str, where: str) -> None:
    """Refuse a function that a source does not have; lists those that it has."""
    source = _Source.read(path, where)
    if source.is_open or function.partition(".")[0] in source.words:  # a class may inherit it
        return
    if not source.functions:
        raise ConfigError(f"{where}: {path.name} has no function '{function}', and no other")
    raise unknown_name(f"function of {path.name}", function, source.functions, listed=40)


def function_hint(path: Path, where: str) -> str:
    """Words for a source that is given without a function."""
    functions = _Source.read(path, where).functions
    listed = f"; its functions: {', '.join(functions[:8])}" if functions else ""
    first = (*functions, "build")[0]
    return f"give the function that builds the model: path={path}:{first}{listed}"


@dataclass(frozen=True, slots=True)
class _Source:
    """Public functions of a module's source, all that may be names in it, packages it imports."""

    functions: list[str]
    words: set[str]
    imported: set[str]

    @property
    def is_open(self) -> bool:
        """True if it may have further names."""
        return bool(self.words & _OPEN)

    @classmethod
    def read(cls, path: Path, where: str) -> _Source:
        """Parse a source; what is no Python is refused with its line."""
        content = path.read_bytes()
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
            place = f"{where}: {path}{line}"
            reason = error.args[0] if error.args else "nested too deeply"
            raise ConfigError(f"{place}: not valid Python: {reason}") from error
        functions = [
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"
        ]
        words, imported = set(re.findall(r"\w+", content.decode(errors="replace"))), set[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names]
                if "*" in names:
                    words.add("*")
                packages = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
                imported |= {name.partition(".")[0] for name in packages}
        return cls(functions, words, imported)


def _classes(config: Any) -> Iterator[tuple[str, str]]:
    """Name and module of each class and function in a Keras file's configuration."""
    if isinstance(config, dict):
        name, module = config.get("class_name"), config.get("module")
        name = config.get("config") if name == "function" else name
        if isinstance(name, str) and isinstance(module, str):
            yield name, module
        config = [part for key, part in config.items() if key != "compile_config"]
    if isinstance(config, list):
        for part in config:
            yield from _classes(part)
