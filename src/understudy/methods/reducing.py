"""Methods that reduce skins: `SkinReducer`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import VertexSource
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.methods.base import ConfigType, Method
from understudy.system.progress import SILENT, Progress


class SkinReducer(Method[ConfigType]):
    """A method with `reduce`, beside `fit`. A subclass writes both."""

    def reduce(
        self,
        deformer: Deformer,
        world_from_bone: np.ndarray | None = None,
        vertices: np.ndarray | VertexSource | None = None,
        *,
        progress: Progress = SILENT,
    ) -> Deformer:
        """The same deformer with a sparser skin.

        deformer         linear skin, without correctives if there are example poses
        world_from_bone  (T,B,3,4) bones of the example poses; None: the deformer's own clips, if it
                         has any
        vertices         (T,V,3) vertices of the example poses; None: those the deformer computes
        """
        raise TypeError(f"{type(self).__qualname__} does not define reduce")

    def with_skin(self, deformer: Deformer, skin: Skin, training: Mapping[str, float]) -> Deformer:
        """The deformer with a new skin, its training figures and its provenance."""
        provenance = {
            **deformer.provenance,
            "understudy": __version__,
            "from": deformer.method,
            "config": asdict(self.config),
        }
        return replace(
            deformer, skin=skin, method=self.name, training=training, provenance=provenance
        )
