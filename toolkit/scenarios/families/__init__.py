"""The scenarios by family: one module each."""

from toolkit.scenarios.families import (
    au,
    cl,
    co,
    grid,
    hs,
    ix,
    ka,
    lc,
    lg,
    lp,
    ls,
    ly,
    mf,
    mx,
    nf,
    pk,
    rd,
    rs,
    se,
    sh,
    sq,
    st,
    th,
    tour,
    v1,
)
from toolkit.scenarios.families import by_hand as by_hand  # more rows of families above
from toolkit.scenarios.families import differences as differences
from toolkit.scenarios.families import disputed as disputed
from toolkit.scenarios.families import edges as edges
from toolkit.scenarios.families import failover as failover
from toolkit.scenarios.families import handshake as handshake
from toolkit.scenarios.families import life as life
from toolkit.scenarios.families import packets as packets
from toolkit.scenarios.families import twice as twice
from toolkit.scenarios.scenario import Family

FAMILIES: tuple[Family, ...] = (
    tour.TOUR,
    hs.HS,
    ly.LY,
    lc.LC,
    ls.LS,
    lp.LP,
    sq.SQ,
    rs.RS,
    th.TH,
    ka.KA,
    au.AU,
    se.SE,
    co.CO,
    v1.V1,
    mx.MX,
    lg.LG,
    nf.NF,
    pk.PK,
    cl.CL,
    rd.RD,
    mf.MF,
    sh.SH,
    st.ST,
    ix.IX,
    grid.GRID,
)
"""In the order in which they are listed."""
