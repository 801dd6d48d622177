"""`ptosim.tune`: the search as a Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.records import replace
from ptosim.launch.program import LoadedProgram
from ptosim.launch.sources import KERNELS, described, open_source, source_path, split_part
from ptosim.tools.api import load
from ptosim.tools.search.request import Recipe, read_recipe
from ptosim.tools.search.rewrite import Launch
from ptosim.tools.search.source import maker_of
from ptosim.tools.search.space import Space, space_of
from ptosim.tools.search.tune import Tuned, Wish, program_launch, tune_program, tune_space

Source = str | Path | LoadedProgram | Callable[..., Any]


def tune(
    source: Source,
    space: Space | Mapping[str, Any] | str | Path | None = None,
    *,
    reference: str | Path | LoadedProgram | None = None,
    target: str | None = None,
    args: Mapping[str, Any] | None = None,
    entry: str | None = None,
    block_num: int | str | None = None,
    reference_blocks: int | None = None,
    trials: int = 60,
    seconds: float | None = None,
    seed: int = 0,
    sampler: str = "tpe",
    keep: int = 1,
    seeds: int = 3,
    tolerance: str = "",
    rewrites: bool = True,
) -> Tuned:
    """Search for a faster program that is equal.

    Without `space` the source is a program (a path, its text, or a loaded one), and its rewrites
    are tried. With one it is what makes programs: a function of the parameters, `file.py:function`,
    a template, a program with constants of the names of the parameters. `reference` is what they
    must be equal to; without it the first point is. `args` are arrays or SPECs, of the reference
    too; `block_num` may be an expression of the parameters, `reference_blocks` the reference's.

    `trials` programs are priced, for `seconds` of wall-clock time at most; `seed` is that of the
    sampler (of Optuna) and of data. `keep` programs are proven, with values on `seeds` sets of
    data; `tolerance="reassociated"` takes f32 sums in another order as equal. Without `rewrites`
    points are tried as they are. Raises UsageError for what means nothing, ProgramError for a
    program that is wrong."""
    asked = Wish(trials, seconds, seed, sampler, keep, seeds, tolerance, rewrites)
    given = dict(args or {})
    is_cpp = _is_cpp(source)
    if space is None:
        if is_cpp:
            raise UsageError("rewrites are of assembly, and this is C++",
                             help="change its constants (--const NAME=8,16), or tune what `ptosim "
                             "fmt --to pto` prints of it")  # fmt: skip
        if callable(source) and not isinstance(source, LoadedProgram):
            raise UsageError("a function makes programs of a space", help="give the space, too")
        program = _loaded(source, target)
        return tune_program(program, _launch(program, given, entry, block_num), asked)
    found, recipe = _read(space)
    asked = replace(asked, rewrites=asked.rewrites and not is_cpp)
    recipe = _completed(recipe, given, entry, block_num)
    one = None
    if reference is not None:
        program = _loaded(reference, target)
        shared = program_launch(program, _arrays(recipe), entry, reference_blocks)
        one = program, shared
        recipe = _as_reference(recipe, shared)
    if isinstance(source, LoadedProgram):
        source = source.front.source.name
    return tune_space(maker_of(source, found), found, recipe, asked, target=target, reference=one)


def _loaded(source: Any, target: str | None) -> LoadedProgram:
    if isinstance(source, LoadedProgram):
        return source.on_target(target)
    if source == "-":
        return load(open_source("-"), target=target)
    if isinstance(source, str) and source.startswith("@"):
        part = split_part(source)[1]
        source = f"{source_path(source)}{'#' if part else ''}{part}"
    return load(source, target=target)


def _is_cpp(source: Any) -> bool:
    if isinstance(source, LoadedProgram):
        return source.front.source.is_cpp
    is_text = isinstance(source, (str, Path)) and source != "-" and not str(source).startswith("@")
    path = source_path(str(source)) if is_text else None
    return path is not None and str(path).endswith(tuple(KERNELS))


def _launch(program: LoadedProgram, given: dict[str, Any], entry: str | None, blocks: Any) -> Any:
    if isinstance(blocks, str):
        raise UsageError("`block_num` is an expression of parameters, and there is no space")
    return program_launch(program, _values(given), entry, blocks)


def _values(given: Mapping[str, Any]) -> dict[str, Any]:
    from ptosim.tools.search.point import argument

    return {name: argument(value, None) for name, value in given.items()}


def _read(space: Any) -> tuple[Space, Recipe]:
    if isinstance(space, (str, Path)):
        return read_recipe(described(space))
    return space_of(space), Recipe()


def _completed(
    recipe: Recipe, args: dict[str, Any], entry: str | None, block_num: int | str | None
) -> Recipe:
    request = replace(recipe.request, args={**recipe.request.args, **args})
    if entry is not None:
        request = replace(request, entry=entry)
    number = recipe.block_num if block_num is None else block_num
    return replace(recipe, request=request, block_num=number)


def _arrays(recipe: Recipe) -> dict[str, Any]:
    """The arguments of a recipe that no parameter is part of: those of the reference, too."""
    from ptosim.tools.search.point import argument

    request = recipe.request
    plain = {n: v for n, v in request.args.items() if not (isinstance(v, str) and "{" in v)}
    return {name: argument(value, request.base) for name, value in plain.items()}


def _as_reference(recipe: Recipe, launch: Launch) -> Recipe:
    """Points are launched as the reference is, unless something else is said of them."""
    args = {**(launch.args or {}), **recipe.request.args}
    request = replace(recipe.request, args=args, block_num=launch.block_num)
    return replace(recipe, request=request)
