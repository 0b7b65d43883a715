"""CO: compression."""

from toolkit.scenarios.scenario import Family

CO = Family("CO", "Compression")
