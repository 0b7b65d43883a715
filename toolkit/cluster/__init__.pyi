from .failure import NotUp as NotUp
from .running import Cluster as Cluster
from .running import up as up
