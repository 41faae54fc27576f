"""Contact sheets, colour bars and PNG files."""

import numpy as np
import pytest

from understudy.evaluation.shading import turbo
from understudy.system.errors import FileError, InputError
from understudy_benchmarks.pictures import colour_bar, save_png, sheet


def test_sheet_places_pictures_in_reading_order_under_labels():
    images = [np.full((40, 60, 3), shade, np.uint8) for shade in (10, 90, 170)]
    page = sheet(
        images,
        ["one", "two", "a label much too long for its little cell"],
        2,
        title="Title",
        gap=10,
    )
    strip = page.shape[0] - 2 * 40
    assert page.shape[1] == 2 * 60 + 3 * 10
    assert strip > 40
    columns = [
        np.flatnonzero((page == shade).all(axis=2).any(axis=0)).min() for shade in (10, 90, 170)
    ]
    assert columns == [10, 80, 10]
    with pytest.raises(InputError, match="one label for each picture"):
        sheet(images, ["one"], 2)


def test_colour_bar_runs_through_the_map():
    bar = colour_bar(turbo(), (0, 2.5), "error, cm", size=(400, 64))
    row = bar[8].astype(int)
    assert bar.shape == (64, 400, 3)
    assert (np.abs(row - turbo()[0]).sum(axis=1) == 0).any()
    assert (np.abs(row - turbo()[255]).sum(axis=1) == 0).any()
    assert (
        colour_bar(turbo(), (0, 2.5), "error, mm", size=(400, 64)) != bar
    ).any()  # the unit is written on it


def test_save_png_is_whole_or_not_at_all(tmp_path):
    from PIL import Image

    picture = np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3)
    path = save_png(tmp_path / "ball.png", picture)
    with Image.open(path) as read:
        assert np.array_equal(np.asarray(read), picture)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FileError):
        save_png(tmp_path / "file" / "ball.png", picture)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ball.png", "file"]
