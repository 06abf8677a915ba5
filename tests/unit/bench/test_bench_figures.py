"""``kstore bench``: the figures of a machine, and their JSON."""

import json

from kstore.bench.machine import figures
from kstore.bench.machine.figures import Figure


def test_figures_survive_json():
    taken = [
        Figure(figures.SUSTAINED_WRITE, 4e8, (3.5e8, 4.5e8), 12, True, "held for 10 s"),
        Figure(figures.COMMIT_SLOWEST, 0.02, None, 400),
    ]
    tree = json.loads(json.dumps({"figures": figures.as_tree(taken)}))
    found = figures.of_tree(tree)
    assert list(found) == list(figures.UNITS)
    assert [found[each.name] for each in taken] == taken
    assert tree["figures"][figures.COMMIT_SLOWEST]["unit"] == found[figures.COMMIT_SLOWEST].unit


def test_a_figure_that_was_not_measured_has_no_value_and_a_reason():
    found = figures.of_tree({})
    assert [each.value for each in found.values()] == [None] * len(figures.UNITS)
    assert all(each.note for each in found.values())
