"""USD scenes written by hand, and what USD's own library makes of a file."""

import numpy as np
from pxr import Gf, Usd, UsdGeom, UsdSkel

# Z up, centimetres, 30 time codes a second from 5 to 8. Under an animated transform: a skinned mesh
# with its own joint order, geomBindTransform, blend shapes with in-betweens; a mesh that is bound
# rigidly. Beside it: a mesh that moves with a transform, one with animated points, one that stands
# still and has left-handed polygons.
SCENE = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 0.01
    upAxis = "Z"
    timeCodesPerSecond = 30
    startTimeCode = 5
    endTimeCode = 8
)
def Xform "World"
{
    def SkelRoot "Hero"
    {
        double3 xformOp:translate.timeSamples = { 5: (0, 0, 1), 8: (3, 1, 2) }
        float xformOp:rotateZ = 30
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ"]
        def Skeleton "Rig" (prepend apiSchemas = ["SkelBindingAPI"])
        {
            uniform token[] joints = ["hip", "hip/knee", "hip/knee/toe"]
            uniform matrix4d[] bindTransforms = [
                ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)),
                ((0, 1, 0, 0), (-1, 0, 0, 0), (0, 0, 1, 0), (1, 0, 0, 1)),
                ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (2, 0, 0, 1))]
            uniform matrix4d[] restTransforms = [
                ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)),
                ((0, 1, 0, 0), (-1, 0, 0, 0), (0, 0, 1, 0), (1, 0, 0, 1)),
                ((0, -1, 0, 0), (1, 0, 0, 0), (0, 0, 1, 0), (0, -1, 0, 1))]
            rel skel:animationSource = </World/Hero/Run>
        }
        def SkelAnimation "Run"
        {
            uniform token[] joints = ["hip/knee", "hip"]
            float3[] translations.timeSamples = {
                5: [(1, 0, 0), (0, 0, 0)], 7: [(1, 0.5, 0), (0, 0, 1)] }
            quatf[] rotations.timeSamples = {
                5: [(1, 0, 0, 0), (1, 0, 0, 0)],
                8: [(0.8, 0, 0.6, 0), (0.96, 0.28, 0, 0)] }
            half3[] scales = [(1, 2, 1), (1, 1, 1)]
            uniform token[] blendShapes = ["smile", "frown"]
            float[] blendShapeWeights.timeSamples = { 5: [0, 1], 8: [1, -0.5] }
        }
        def Mesh "Body" (prepend apiSchemas = ["SkelBindingAPI"])
        {
            int[] faceVertexCounts = [4, 3]
            int[] faceVertexIndices = [0, 1, 2, 3, 1, 4, 2]
            point3f[] points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (2, 0, 0.5)]
            float2[] primvars:UVMap = [(0, 0), (0.5, 0), (0.5, 1), (0, 1), (1, 0)] (
                interpolation = "vertex")
            normal3f[] normals = [(0, 0, 1), (0, 1, 0)] (interpolation = "uniform")
            matrix4d primvars:skel:geomBindTransform = (
                (2, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0.5, 0, 0, 1))
            int[] primvars:skel:jointIndices = [0, 1, 0, 1, 1, 0, 1, 0, 2, 0] (
                elementSize = 2
                interpolation = "vertex")
            float[] primvars:skel:jointWeights = [0.25, 0.75, 1, 0, 0.5, 0.5, 0, 1, 0.6, 0.4] (
                elementSize = 2
                interpolation = "vertex")
            uniform token[] skel:joints = ["hip/knee", "hip", "hip/knee/toe"]
            uniform token[] skel:blendShapes = ["frown", "smile"]
            rel skel:blendShapeTargets = [</World/Hero/Body/frown>, </World/Hero/Body/smile>]
            rel skel:skeleton = </World/Hero/Rig>
            double3 xformOp:translate = (100, 0, 0)
            uniform token[] xformOpOrder = ["xformOp:translate"]
            def BlendShape "smile"
            {
                uniform vector3f[] offsets = [(0, 0, 1), (0, 0, 2)]
                uniform int[] pointIndices = [2, 4]
                uniform vector3f[] inbetweens:half = [(1, 0, 0), (0, 0, 0)] (weight = 0.5)
            }
            def BlendShape "frown"
            {
                uniform vector3f[] offsets = [
                    (0, 1, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, -1)]
            }
        }
        def Mesh "Hat" (prepend apiSchemas = ["SkelBindingAPI"])
        {
            int[] faceVertexCounts = [3]
            int[] faceVertexIndices = [0, 1, 2]
            point3f[] points = [(0, 0, 3), (1, 0, 3), (0, 1, 3)]
            int[] primvars:skel:jointIndices = [2, 0] (
                elementSize = 2
                interpolation = "constant")
            float[] primvars:skel:jointWeights = [0.5, 0.5] (
                elementSize = 2
                interpolation = "constant")
            rel skel:skeleton = </World/Hero/Rig>
        }
    }
    def Xform "Cart"
    {
        double xformOp:rotateX.timeSamples = { 5: 0, 8: 90 }
        uniform token[] xformOpOrder = ["xformOp:rotateX"]
        def Mesh "Wheel"
        {
            int[] faceVertexCounts = [3]
            int[] faceVertexIndices = [0, 1, 2]
            point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]
            double3 xformOp:translate = (0, 5, 0)
            uniform token[] xformOpOrder = ["xformOp:translate"]
        }
    }
    def Mesh "Flag"
    {
        int[] faceVertexCounts = [3]
        int[] faceVertexIndices = [0, 1, 2]
        point3f[] points.timeSamples = {
            5: [(0, 0, 0), (1, 0, 0), (0, 1, 0)], 8: [(0, 0, 3), (1, 0, 0), (0, 1, -1)] }
        double3 xformOp:scale = (2, 2, 1)
        uniform token[] xformOpOrder = ["xformOp:scale"]
    }
    def Mesh "Rock"
    {
        uniform token orientation = "leftHanded"
        int[] faceVertexCounts = [4, 2]
        int[] faceVertexIndices = [0, 1, 2, 3, 0, 1]
        point3f[] points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]
        texCoord2f[] primvars:st = [(0, 0), (1, 0), (1, 1), (0, 1)] (interpolation = "faceVarying")
        int[] primvars:st:indices = [0, 1, 2, 3, 0, 1]
    }
    def Mesh "Hidden"
    {
        token visibility = "invisible"
        int[] faceVertexCounts = [3]
        int[] faceVertexIndices = [0, 1, 2]
        point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]
    }
}
"""


def baked(path, times) -> dict[str, np.ndarray]:
    """The points of every mesh in world space at some times by USD's own skinning, (T,n,3)."""
    stage = Usd.Stage.Open(str(path))
    # A layer of another rate than the stage would get its samples at other times.
    stage.GetSessionLayer().timeCodesPerSecond = stage.GetTimeCodesPerSecond()
    stage.SetEditTarget(stage.GetSessionLayer())
    assert UsdSkel.BakeSkinning(
        Usd.PrimRange.Stage(stage), Gf.Interval(float(min(times)), float(max(times)))
    )
    result = {}
    for prim in stage.Traverse():
        if prim.IsA(UsdGeom.Mesh):
            frames = []
            for time in times:
                points = np.array(UsdGeom.Mesh(prim).GetPointsAttr().Get(time), np.float64)
                rows = np.array(UsdGeom.Xformable(prim).ComputeLocalToWorldTransform(time))
                frames.append(points @ rows[:3, :3] + rows[3, :3])
            result[str(prim.GetPath())] = np.array(frames)
    return result
