"""The templates, style sheets and scripts of ``templates/``."""

from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

_TEMPLATES = "templates"


@cache
def environment() -> Environment:
    """The templates; what is filled in is escaped, and a name that is missing is an error."""
    return Environment(
        loader=PackageLoader("toolkit.report", _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def asset(name: str) -> str:
    """The text of a style sheet or a script."""
    return files("toolkit.report").joinpath(_TEMPLATES, name).read_text(encoding="utf-8")
