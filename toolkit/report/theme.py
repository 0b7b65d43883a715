"""Style sheets of charts for light and dark surroundings.

A sheet has both colours side by side, ``fill: light-dark(#fff, #161a21)``, and CSS's ``color-scheme`` selects one.
A browser follows the user's preference; the themes of JupyterLab and VS Code take precedence.
"""

import re

from toolkit.report.assets import asset

_BOTH = re.compile(r"([\w-]+): light-dark\((#\w+), (#\w+)\);")
_DARK = ('[data-jp-theme-light="false"]', '[data-vscode-theme-kind$="dark"]')
_LIGHT = ('[data-jp-theme-light="true"]', '[data-vscode-theme-kind$="light"]')


def sheet(chart: str, *names: str) -> str:
    """Return style sheets of ``templates/`` for charts of the class ``chart``; as :func:`in_both_schemes`."""
    return in_both_schemes("".join(asset(f"{name}.css") for name in names), chart)


def in_both_schemes(css: str, chart: str) -> str:
    """Return a style sheet for charts of the class ``chart``, for light and dark surroundings.

    Programs without ``light-dark`` (SVG editors, older browsers) use the light colours.
    """
    css = _BOTH.sub(r"\1: \2; \1: light-dark(\2, \3);", css)
    return css + "".join(
        [
            _scheme(chart, ("",), "light dark"),
            _scheme(chart, _LIGHT, "light"),
            _scheme(chart, _DARK, "dark"),
            f"@media print {{\n{_scheme(chart, ('', *_LIGHT, *_DARK), 'light')}}}\n",
        ]
    )


def _scheme(chart: str, surroundings: tuple[str, ...], scheme: str) -> str:
    selectors = ", ".join(f"{each} .{chart}".lstrip() for each in surroundings)
    return f"{selectors} {{ color-scheme: {scheme}; }}\n"
