"""Any schedule of sends, dials, cuts and delays delivers all, once and in order, on v1 too."""

from hypothesis import settings

from messenger.link import Protocol
from tests.messenger.test_endpoint_stateful import LosslessSession


class LosslessV1Session(LosslessSession):
    """The same two nodes on the same bad network."""

    PROTOCOL = Protocol.V1


TestLosslessV1Session = LosslessV1Session.TestCase
TestLosslessV1Session.settings = settings(stateful_step_count=30)
