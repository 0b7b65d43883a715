"""The whole table: 40 functions and 109 sub-runs on msgr v2, and their analogue on msgr v1."""

from toolkit.scenarios.crimson.faults import FAULTS
from toolkit.scenarios.crimson.model import Table
from toolkit.scenarios.crimson.races import BEYOND, RACES
from toolkit.scenarios.crimson.scripts import SCRIPTS
from toolkit.scenarios.crimson.v1 import V1_FAULTS
from toolkit.scenarios.crimson.v1_races import V1_RACES

TABLE = Table.of(*FAULTS, *RACES, *BEYOND, *SCRIPTS)
V1_TABLE = Table.of(*V1_FAULTS, *V1_RACES, *SCRIPTS)
"""Without CF02, CF05, CF06, CF13 and CF18, which stop at idents: what v1 has of them is in other functions."""
