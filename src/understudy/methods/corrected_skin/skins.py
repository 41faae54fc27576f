"""The skins of some poses: fitted weights, and the skin that held-out poses choose.

`auto` and the guard need them again for the same poses, and they take longer than a small fit. They
are kept as long as the poses are.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from understudy.core.poses import Poses
from understudy.core.skin import Skin
from understudy.methods.differential.skins import make_skin
from understudy.methods.skin_fitting.evidence import ENOUGH_POSES, Evidence
from understudy.system.progress import Progress

_KEPT: weakref.WeakKeyDictionary[Poses, dict[int, Skins]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Skins:
    """Two skins of the same poses.

    fitted  weights fitted by least squares
    chosen  these, or the best single bone with blended borders: what predicts held-out poses better
    """

    fitted: Skin
    chosen: Skin


def skins_of(poses: Poses, influences: int, progress: Progress) -> Skins:
    """The skins of poses with bones, at most `influences` bones per vertex."""
    kept = _KEPT.setdefault(poses, {})
    if influences not in kept:
        fitted = chosen = make_skin("fitted", poses, None, influences, progress)
        if poses.pose_count >= ENOUGH_POSES:
            blended = make_skin("blended", poses, None, influences, progress)
            chosen = min((blended, fitted), key=lambda skin: Evidence.of(poses, skin).error("all"))
        kept[influences] = Skins(fitted, chosen)
    return kept[influences]


def share_skins(few: Poses, poses: Poses) -> None:
    """Let fits of `few` use the skins of `poses`, of which they are a part."""
    _KEPT[few] = _KEPT.setdefault(poses, {})
