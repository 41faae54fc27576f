"""Pose stores: poses on disk, tiled by pose and vertex (`.zarr`)."""

from understudy.io.pose_store.arrays import StoredVertices as StoredVertices
from understudy.io.pose_store.header import STRETCH as STRETCH
from understudy.io.pose_store.header import Place as Place
from understudy.io.pose_store.header import Sample as Sample
from understudy.io.pose_store.store import ANOTHER as ANOTHER
from understudy.io.pose_store.store import BLOCK as BLOCK
from understudy.io.pose_store.store import block_controls as block_controls
from understudy.io.pose_store.store import controls_text as controls_text
from understudy.io.pose_store.store import count_blocks as count_blocks
from understudy.io.pose_store.store import create as create
from understudy.io.pose_store.store import default_block as default_block
from understudy.io.pose_store.store import join as join
from understudy.io.pose_store.store import lock as lock
from understudy.io.pose_store.store import missing_blocks as missing_blocks
from understudy.io.pose_store.store import occupied as occupied
from understudy.io.pose_store.store import open_poses as open_poses
from understudy.io.pose_store.store import provenance as provenance
from understudy.io.pose_store.store import resume as resume
from understudy.io.pose_store.store import shown as shown
from understudy.io.pose_store.store import stretch_limit as stretch_limit
from understudy.io.pose_store.store import tidy as tidy
from understudy.io.pose_store.store import write_block as write_block
