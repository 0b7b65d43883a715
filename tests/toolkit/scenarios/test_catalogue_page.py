"""docs/catalogue.md lists the scenarios of the catalogue."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_of_the_catalogue_is_up_to_date() -> None:
    spec = spec_from_file_location("catalogue_page", DOCS / "catalogue.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "catalogue.md").read_text(encoding="utf-8") == module.page(), "run python docs/catalogue.py"
