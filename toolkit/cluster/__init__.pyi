from .cluster import Cluster as Cluster
from .cluster import up as up
from .failure import NotUp as NotUp
