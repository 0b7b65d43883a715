"""SH: markdown, shutdown, lifecycle."""

from toolkit.scenarios.scenario import Family

SH = Family("SH", "Markdown, shutdown, lifecycle")
