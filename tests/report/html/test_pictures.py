"""The picture of a large matrix, read back by another decoder."""

import base64
import io
import re

import numpy as np
import pytest
from matplotlib.image import imread

from tests.report.html.pages import report, table, tree, value, within, words
from tracekit.report.html.pictures import MOST_CELLS, RATIOS


def _pictures():
    """By caption the alpha of what is known and of the ratios, shape (n, n), in 0..1."""
    layers_by_caption = {}
    for figure in within(tree("many"), "together").iter("figure"):
        layers = {}
        for part in figure.find("div").iter("div"):
            if part.get("style"):
                (png,) = re.findall(r";mask-image:url\(data:image/png;base64,([\w+/=]+)\)", part.get("style"))
                layers[part.get("class")] = imread(io.BytesIO(base64.b64decode(png)))[..., -1]
        layers_by_caption[figure.find("figcaption").text] = layers
    return layers_by_caption


@pytest.mark.parametrize(("ratio", "words"), RATIOS.items())
def test_the_picture_of_many_devices_has_a_pixel_a_pair_as_opaque_as_their_ratio(ratio, words):
    summary = report("many").summary()
    devices = [device["device"] for device in summary["devices"]]
    assert len(devices) > MOST_CELLS
    expected = np.zeros((len(devices), len(devices)))
    for pair in summary["device_pairs"]:
        a, b = devices.index(pair["a"]), devices.index(pair["b"])
        expected[a, b] = expected[b, a] = pair[ratio]
    layers = _pictures()[f"Together, {words}"]
    np.testing.assert_allclose(layers["cells"], expected, atol=0.5 / 255 + 1e-9)
    np.testing.assert_array_equal(layers["known"], 1 - np.eye(len(devices)))


def test_of_many_devices_the_pairs_that_overlap_least_and_most_are_told():
    pairs = sorted(report("many").summary()["device_pairs"], key=lambda pair: pair["ratio_min"])
    _, rows = table(within(tree("many"), "together"), "Pairs of devices busy at the same time")
    result = [(words(row[0]), words(row[1]), *map(value, row[2:])) for row in rows]
    assert result == [
        (pair["a"], pair["b"], pair["overlap_ps"], pair["ratio_min"], pair["ratio_union"])
        for pair in [*pairs[:12], *pairs[-12:]]
    ]
    assert "all 780 are in summary.json (device_pairs)" in words(within(tree("many"), "together"))
