from .cluster import Cluster as Cluster
from .failure import NotUp as NotUp
from .own import OwnCluster as OwnCluster
from .own import up as up
