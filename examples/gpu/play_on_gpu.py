"""Plays a deformer on a WebGPU device: networks on the CPU, bases and skin in a compute shader.

    python examples/gpu/play_on_gpu.py hero.understudy

Needs the package `wgpu` and a GPU, or a Vulkan driver in software (Debian: mesa-vulkan-drivers).
Prints the largest difference from the CPU in the rest pose, and what a pose costs.
"""

import sys
from pathlib import Path

import numpy as np
import wgpu

from understudy import Deformer
from understudy.runtime.gpu_arrays import GpuArrays

SHADER = Path(__file__).with_name("correctives.wgsl")


class GpuPlayer:
    """A deformer with a linear skin on a WebGPU device."""

    def __init__(self, deformer: Deformer):
        self.arrays = GpuArrays.of(deformer)
        adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
        most = adapter.limits["max-storage-buffer-binding-size"]
        self.device = adapter.request_device_sync(
            required_limits={"max-storage-buffer-binding-size": most, "max-buffer-size": most}
        )
        influences = np.empty((*self.arrays.influence_weights.shape, 2), np.uint32)
        influences[..., 0] = self.arrays.influence_transforms
        influences[..., 1] = self.arrays.influence_weights.view(np.uint32)
        self.coefficients = np.zeros(max(1, self.arrays.coefficient_count), np.float32)
        self.transforms = np.zeros((self.arrays.transform_count, 3, 4), np.float32)
        constant = [
            self.arrays.rest,
            self.arrays.entry_starts,
            self.arrays.entries if len(self.arrays.entries) else np.zeros(4, np.uint32),
            self.arrays.matrices if len(self.arrays.matrices) else np.zeros(1, np.float32),
            influences,
        ]
        usage = wgpu.BufferUsage
        self.inputs = [
            self.device.create_buffer_with_data(data=data, usage=usage.STORAGE | usage.COPY_DST)
            for data in (self.coefficients, self.transforms)
        ]
        self.output = self.device.create_buffer(
            size=self.arrays.rest.nbytes, usage=usage.STORAGE | usage.COPY_SRC
        )
        buffers = [
            *(
                self.device.create_buffer_with_data(data=data, usage=usage.STORAGE)
                for data in constant
            ),
            *self.inputs,
            self.output,
        ]
        module = self.device.create_shader_module(code=SHADER.read_text(encoding="utf-8"))
        self.pipeline = self.device.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": "main"}
        )
        self.group = self.device.create_bind_group(
            layout=self.pipeline.get_bind_group_layout(0),
            entries=[
                {"binding": i, "resource": {"buffer": buffer}} for i, buffer in enumerate(buffers)
            ],
        )

    def deform(self, world_from_bone, controls=None) -> np.ndarray:
        """Return (V,3) vertices of one pose.

        world_from_bone  (B,3,4), or None
        controls         (C,), or None
        """
        self.arrays.write_coefficients(world_from_bone, controls, self.coefficients)
        self.arrays.write_transforms(world_from_bone, self.transforms)
        for buffer, data in zip(self.inputs, (self.coefficients, self.transforms)):
            self.device.queue.write_buffer(buffer, 0, data)
        encoder = self.device.create_command_encoder()
        step = encoder.begin_compute_pass()
        step.set_pipeline(self.pipeline)
        step.set_bind_group(0, self.group)
        step.dispatch_workgroups(-(-len(self.arrays.rest) // 64))
        step.end()
        self.device.queue.submit([encoder.finish()])
        data = self.device.queue.read_buffer(self.output)
        return np.frombuffer(data, np.float32).reshape(-1, 4)[:, :3]


def main() -> None:
    """Play the rest pose of the file that is named on the command line."""
    deformer = Deformer.load(sys.argv[1])
    bones = None if deformer.skeleton is None else deformer.skeleton.world_from_bone
    controls = None if deformer.control_spec is None else deformer.control_spec.rest
    player = GpuPlayer(deformer)
    difference = np.abs(player.deform(bones, controls) - deformer.deform(bones, controls)).max()
    print(f"largest difference: {difference / deformer.mesh.height:.1e} of the height")
    upload = player.coefficients.nbytes + player.transforms.nbytes
    print(f"upload per pose: {upload:,} bytes; matrices: {player.arrays.matrices.nbytes:,} bytes")


if __name__ == "__main__":
    main()
