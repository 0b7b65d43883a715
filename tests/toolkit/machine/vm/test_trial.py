"""User-mode Linux boots here; a machine on which it does not is a failure in strict runs."""

from tests.support.guests import OTHERS, grouped
from tests.support.needs import require
from toolkit.machine import vm
from toolkit.machine.vm import trial
from toolkit.machine.vm.kernels import image_directory, is_ready
from toolkit.pytest_plugin.needs import IsMissing

pytestmark = grouped(OTHERS)


def test_user_mode_linux_boots_if_its_image_exists() -> None:
    if not is_ready(image_directory("uml")):
        require("uml")
    if reason := trial.why_not(vm.find("uml")):
        raise IsMissing(f"user-mode Linux does not boot here: {reason}")
