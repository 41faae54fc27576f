"""Runs in Blender: a .glb as Blender's FBX exporter writes it by default. IN.glb OUT.fbx"""

import sys

import bpy

source, target = sys.argv[-2:]
bpy.ops.wm.read_factory_settings(use_empty=True)
bpy.ops.import_scene.gltf(filepath=source, merge_vertices=False)
drawn = lambda each: any("glTF_not_exported" in c.name for c in each.users_collection)
for each in filter(drawn, list(bpy.data.objects)):
    bpy.data.objects.remove(each)
bpy.ops.export_scene.fbx(filepath=target)
