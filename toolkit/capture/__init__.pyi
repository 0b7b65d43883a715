from .formats import open_capture as open_capture
from .recording import Taken as Taken
from .recording import capturing as capturing
