"""The script behind the moving picture of the README."""

import numpy as np
from PIL import Image

from real_scripts import script


def test_animation_has_one_frame_per_so_many_steps(tmp_path, capsys):
    path = tmp_path / "episode.gif"
    assert script("animation")["main"](["--steps", "24", "--every", "8", "--out", str(path)]) == 0
    assert "3 frames" in capsys.readouterr().out
    with Image.open(path) as picture:
        assert picture.n_frames == 3
        frames = []
        for number in range(3):
            picture.seek(number)
            frames.append(np.asarray(picture.convert("RGB")).astype(int))
    assert frames[0].shape[1] == 800
    assert (frames[0][0, 0] == 255).all()
    assert np.abs(frames[0] - frames[2]).max() > 100  # the episode goes on
