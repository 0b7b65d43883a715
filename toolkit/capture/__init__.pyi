from .formats import open_capture as open_capture
from .recorder import Taken as Taken
from .recorder import capturing as capturing
