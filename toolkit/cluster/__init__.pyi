from .running import Cluster as Cluster
from .running import up as up
