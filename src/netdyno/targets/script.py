"""What an unmodified training script is: the command line that starts it, and where its source lies. Nothing is run here."""

import ast
import difflib
import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Literal, NamedTuple

from netdyno.errors import TargetError

Kind = Literal["file", "module", "program", "torchrun"]

# Programs, and modules behind `python -m`, that start a script in turn; the words belong to the program.
LAUNCHERS = {"torchrun": (), "accelerate": ("launch",), "deepspeed": ()}
LAUNCHING_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")

TAKES_A_VALUE = "WX"

# What installers write to call a package's function has some ten lines; a script of its own has more.
STUB_CHARACTERS = 1500

_CALLABLE = re.compile(r"^\s*from\s+([\w.]+)\s+import\s+\w+", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Script:
    """A training script as its author starts it.

    `argv` is the whole command line, the interpreter or program first, as an absolute path; `cwd` the folder it is
    started in. `file` is the source that runs as `__main__`, or holds the program's entry, None when it cannot be
    told. `kind` says who starts it: the interpreter (`file`, `module`), a console script (`program`), or a launcher
    that starts one process per rank (`torchrun`).
    """

    argv: tuple[str, ...]
    cwd: Path
    name: str
    file: Path | None
    kind: Kind


class Way(NamedTuple):
    """How a script is to be run: in its own folder instead of a scratch copy, with hubs in reach, watched for so many updates."""

    in_place: bool = False
    online: bool = False
    updates: int | None = None


def again(command: Sequence[str], folder: str) -> Script:
    """The script that was started by a command line in a folder. Raises TargetError when it is gone."""
    return parse(None, command, cwd=Path(folder))


class _Found(NamedTuple):
    name: str
    file: Path | None
    kind: Kind


def names_script(reference: str) -> bool:
    """True for the path of an existing .py file that declares no workload; False for everything `load` understands.

    The file is read, not run. One that imports netdyno or calls `Workload` declares; one with a syntax error is a
    script unless it says `netdyno`, so that whoever runs it names the line.
    """
    path = Path(reference).expanduser()
    if ":" in reference or path.suffix != ".py" or not path.is_file():
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        return not any(map(_declares, ast.walk(ast.parse(text))))
    except (SyntaxError, ValueError):
        return "netdyno" not in text


def _declares(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(name.name.split(".")[0] == "netdyno" for name in names)
        case ast.ImportFrom(module=str(module), level=0):
            return module.split(".")[0] == "netdyno"
        case ast.Call(func=ast.Name(id="Workload") | ast.Attribute(attr="Workload")):
            return True
    return False


def parse(
    reference: str | None,
    rest: Sequence[str] = (),
    *,
    module: str | None = None,
    cwd: str | Path | None = None,
) -> Script:
    """The script that the words of a command line stand for.

    `train.py` and its arguments, `module` (as after `python -m`) and its arguments, or, with neither, a whole
    command: `python -m pkg …`, `torchrun … train.py …`, `accelerate launch train.py …`, a console script. Raises
    TargetError for what is not there and what is not Python.
    """
    home = Path(os.path.abspath(cwd or Path.cwd()))
    if reference is None and module is None:
        argv, found = _command(tuple(rest), home)
    elif module is not None:
        words = (reference, *rest) if reference is not None else tuple(rest)
        argv, found = (sys.executable, "-m", module, *words), _module(module, home, "module")
    else:
        assert reference is not None
        argv, found = (sys.executable, os.path.expanduser(reference), *rest), _file(reference, home)
    return Script(argv=argv, cwd=home, name=found.name, file=found.file, kind=found.kind)


def _command(words: tuple[str, ...], cwd: Path) -> tuple[tuple[str, ...], _Found]:
    if not words:
        raise TargetError(
            "there is no script to put on the dyno",
            because="neither a file, nor a module, nor a command was given",
            hint="write `netdyno doctor train.py -- --epochs 3`, or the whole command after `--`",
        )
    first = words[0]
    if first.endswith(".py"):  # whatever interpreter its first line names: netdyno stands in this environment
        return (sys.executable, *words), _file(first, cwd)
    program = _program(first, cwd)
    argv = (program, *words[1:])
    if re.fullmatch(r"pythonw?[\d.]*t?|pypy[\d.]*", Path(program).name):
        return argv, _interpreted(argv, cwd)
    if Path(program).name in LAUNCHERS:
        before = LAUNCHERS[Path(program).name]
        if words[1 : 1 + len(before)] != before:
            raise TargetError(
                f"`{' '.join(words[:2])}` starts no training",
                because=f"`{Path(program).name}` does that with `{' '.join(before)}`",
                hint=f"write `{first} {' '.join(before)} train.py …`",
            )
        return argv, _launched(words[1 + len(before) :], cwd, f"{first} {' '.join(before)}".strip())
    return argv, _console_script(Path(program))


def _program(word: str, cwd: Path) -> str:
    """Where the program lies; a relative path would not be found from the scratch copy."""
    if os.sep in word:
        found = shutil.which(os.path.join(cwd, os.path.expanduser(word)))
    else:
        found = shutil.which(word)
        # A virtual environment that is used by path, not activated, has its programs beside its interpreter.
        found = found or shutil.which(word, path=os.path.dirname(sys.executable))
    if found is not None:
        return os.path.abspath(found)
    if "=" in word:
        raise TargetError(
            f"cannot start `{word}`",
            because="a setting of the environment is the shell's business, and there is no shell here",
            hint=f"set it before netdyno: `{word} netdyno …`",
        )
    raise TargetError(
        f"cannot find the program `{word}`",
        because="there is none of that name on the path that can be run",
        hint="give the script itself, as in `netdyno doctor train.py -- --epochs 3`, or the program's whole path",
    )


def _interpreted(argv: tuple[str, ...], cwd: Path) -> _Found:
    """What `python …` runs: skips the interpreter's own options."""
    words = list(argv[1:])
    while words and words[0].startswith("-") and words[0] != "-":
        option = words.pop(0)
        letters = option[1:] if not option.startswith("--") else ""
        if "c" in re.sub(r"[WXm].*", "", letters):
            break
        if "m" in re.sub(r"[WX].*", "", letters):
            name = letters.partition("m")[2] or (words.pop(0) if words else "")
            if name in LAUNCHING_MODULES:
                return _launched(tuple(words), cwd, f"python -m {name}")
            return _module(name, cwd, "module", sought=_ours(argv[0]))
        if letters in TAKES_A_VALUE and words:
            words.pop(0)
    else:
        if words and words[0] != "-":
            return _file(words[0], cwd)
    raise TargetError(
        f"`{' '.join(argv[:3])}` names no script",
        because="code on the command line or on standard input cannot be started twice",
        hint="put it into a file and give the file",
    )


def _launched(words: tuple[str, ...], cwd: Path, launcher: str) -> _Found:
    """What a launcher starts: the first word that is a script, or the module after `-m`.

    A launcher's own options are not known here; their values rarely end in `.py`.
    """
    for index, word in enumerate(words):
        if word in ("-m", "--module") and index + 1 < len(words):
            name = next((later for later in words[index + 1 :] if re.fullmatch(r"[A-Za-z_][\w.]*", later)), "")
            return _module(name, cwd, "torchrun")
        if word.endswith(".py"):
            return _file(word, cwd)._replace(kind="torchrun")
    raise TargetError(
        f"`{launcher}` is given no script",
        because="none of its words ends in `.py`, and there is no `-m`",
        hint=f"write `{launcher} train.py …`",
    )


def _file(word: str, cwd: Path) -> _Found:
    path = Path(os.path.normpath(cwd / Path(word).expanduser()))
    if path.is_dir():
        if (path / "__main__.py").is_file():
            return _Found(path.name, path / "__main__.py", "file")
        inside = sorted(file.name for file in path.glob("*.py"))
        likely = next((name for name in ("train.py", "main.py") if name in inside), inside[0] if inside else None)
        raise TargetError(
            f"`{word}` is a folder",
            because="it holds no `__main__.py` that could be run",
            hint=f"give the script in it: `{os.path.join(word, likely)}`" if likely else "give the script itself",
        )
    if not path.is_file():
        raise TargetError(
            f"cannot find `{word}`", because=f"there is no such file in `{cwd}`", hint=_nearest(path, cwd)
        )
    if path.suffix not in (".py", ".pyw", "") or not _reads_as_python(path):
        raise TargetError(
            f"`{word}` is not a Python script",
            because="a notebook is not run from top to bottom"
            if path.suffix == ".ipynb"
            else f"its name ends in `{path.suffix}`"
            if path.suffix not in (".py", ".pyw", "")
            else "it is not text that Python reads",
            hint="turn it into a script first: `jupyter nbconvert --to script`"
            if path.suffix == ".ipynb"
            else "give the .py file that trains; what a shell script sets up, set up before netdyno",
        )
    return _Found(path.stem if path.stem != "__main__" else path.parent.name, path, "file")


def _reads_as_python(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(4096)
    if b"\0" in start:
        return False
    return path.suffix != "" or (start[:2] != b"#!" or b"python" in start[:256])


def _nearest(path: Path, cwd: Path) -> str:
    """The script that was perhaps meant, beside the missing one or one folder down."""
    folder = path.parent if path.parent.is_dir() else cwd
    there = {file.name: file for file in (*folder.glob("*/*.py"), *folder.glob("*.py"))}
    near = difflib.get_close_matches(path.name, there, n=1, cutoff=0.6)
    if not near:
        return "check the spelling and the folder; the script is looked for from where netdyno is started"
    return f"did you mean `{os.path.relpath(there[near[0]], cwd)}`?"


def _module(name: str, cwd: Path, kind: Kind, *, sought: bool = True) -> _Found:
    """The file of `python -m name`. Not even its package is imported to find it."""
    file = _source(name, cwd) if name else None
    if file is None and sought:
        raise TargetError(
            f"cannot find the module `{name}`",
            because=f"it is neither in `{cwd}` nor installed, or it is a package without `__main__.py`",
            hint="start from the folder that holds the package, or give the path of the script",
        )
    return _Found(name.removesuffix(".__main__"), file, kind)


def _source(name: str, cwd: Path) -> Path | None:
    spec = _spec(name, cwd)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _spec(f"{name}.__main__", cwd)
    return _python_file(spec)


def _python_file(spec: ModuleSpec | None) -> Path | None:
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(os.path.abspath(spec.origin))


def _spec(name: str, cwd: Path) -> ModuleSpec | None:
    # importlib.util.find_spec would import the parents, and a package of models takes seconds.
    spec: ModuleSpec | None = None
    where: list[str] | None = None
    parts = name.split(".")
    for depth in range(len(parts)):
        spec = _one_spec(".".join(parts[: depth + 1]), where, cwd)
        if spec is None:
            return None
        where = list(spec.submodule_search_locations or ())
    return spec


def _one_spec(name: str, where: list[str] | None, cwd: Path) -> ModuleSpec | None:
    spec = PathFinder.find_spec(name, [str(cwd), *sys.path] if where is None else where)
    if spec is not None:
        return spec
    for finder in sys.meta_path:  # an editable installation may have a finder of its own
        find = getattr(finder, "find_spec", None)
        if find is not None and (spec := find(name, where, None)) is not None:
            return spec
    return None


def _console_script(program: Path) -> _Found:
    """What a program on the path runs: a console script is a few lines of Python that call a function."""
    with program.open("rb") as file:
        start = file.read(8192)
    shebang = start[:512].split(b"\n", 3)[:2]
    if start[:2] != b"#!" or not any(b"python" in line for line in shebang):
        raise TargetError(
            f"`{program.name}` is not a Python program",
            because="it does not begin by calling a Python interpreter",
            hint="give the command that starts the training itself, such as `python train.py …`",
        )
    deaf = re.search(rb"python[\d.]*\s+-\w*([IES])", start[:512].split(b"\n", 1)[0])
    if deaf:
        raise TargetError(
            f"cannot ride along with `{program.name}`",
            because=f"it starts its interpreter with `-{deaf[1].decode()}`, which reads nothing from its environment",
            hint="start the module behind it with `python -m`",
        )
    text = start.decode("utf-8", errors="replace")
    imported = [name for name in _CALLABLE.findall(text) if name.split(".")[0] not in sys.stdlib_module_names]
    if len(imported) != 1 or "sys.exit(" not in text or len(text) > STUB_CHARACTERS:
        return _Found(program.stem, program, "program")  # a script without its extension, made executable
    interpreter = re.search(r"(/\S*python[\d.]*)", text[:512])
    spec = _spec(imported[0], program.parent) if interpreter is not None and _ours(interpreter[1]) else None
    return _Found(program.name, _python_file(spec), "program")


def _ours(interpreter: str) -> bool:
    """True when this interpreter finds the same modules as ours does."""
    mine = Path(sys.executable)
    return Path(interpreter).parent == mine.parent and os.path.realpath(interpreter) == os.path.realpath(mine)
