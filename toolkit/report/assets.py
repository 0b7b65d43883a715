"""The templates, style sheets and scripts of ``templates/``."""

from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

_TEMPLATES = "templates"


@cache
def environment() -> Environment:
    """Return the environment of the templates: values are escaped, and a missing name is an error."""
    return Environment(
        loader=PackageLoader("toolkit.report", _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def asset(name: str) -> str:
    """Return the text of a style sheet or a script."""
    return files("toolkit.report").joinpath(_TEMPLATES, name).read_text(encoding="utf-8")
