// Bases and linear skin of a deformer: one thread per vertex. The networks run on the CPU
// (`understudy_coefficients`); `understudy_fill_gpu_arrays` fills the constant buffers.
//
// For V vertices with K influences, E entries, M matrix numbers, C coefficients and B transforms:
//
//     upload per pose   4 C + 48 B bytes
//     read per pose     4 M + 16 E + (20 + 8 K) V + 4 C + 48 B bytes
//     written           16 V bytes
//     multiply-adds     M (3 M for shared bases) + (12 K + 9) V
//
// An engine that skins by itself stops after the first loop and adds `point` to its rest positions.

struct Entry {
    matrix: u32,       // first number in `matrices`
    step: u32,         // from one component to the next
    coefficient: u32,  // first one
    count: u32,        // components; highest bit: one number per component serves x, y and z
}

struct Influence {
    transform: u32,
    weight: f32,
}

@group(0) @binding(0) var<storage, read> rest: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> entry_starts: array<u32>;
@group(0) @binding(2) var<storage, read> entries: array<Entry>;
@group(0) @binding(3) var<storage, read> matrices: array<f32>;
@group(0) @binding(4) var<storage, read> influences: array<Influence>;
@group(0) @binding(5) var<storage, read> coefficients: array<f32>;
@group(0) @binding(6) var<storage, read> transforms: array<vec4<f32>>;  // three rows each
@group(0) @binding(7) var<storage, read_write> positions: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let vertex = id.x;
    let vertices = arrayLength(&rest);
    if (vertex >= vertices) {
        return;
    }
    var point = rest[vertex].xyz;
    for (var e = entry_starts[vertex]; e < entry_starts[vertex + 1u]; e++) {
        let entry = entries[e];
        let is_shared = (entry.count >> 31u) == 1u;
        let count = entry.count & 0x7fffffffu;
        for (var k = 0u; k < count; k++) {
            let at = entry.matrix + k * entry.step;
            let c = entry.coefficient + k;
            if (is_shared) {
                point += matrices[at] * vec3(coefficients[c], coefficients[c + count],
                                             coefficients[c + 2u * count]);
            } else {
                point += coefficients[c] * vec3(matrices[at], matrices[at + 1u],
                                                matrices[at + 2u]);
            }
        }
    }

    let width = arrayLength(&influences) / vertices;
    var moved = vec3(0.0, 0.0, 0.0);
    for (var k = 0u; k < width; k++) {
        let influence = influences[vertex * width + k];
        let row = 3u * influence.transform;
        let whole = vec4(point, 1.0);
        moved += influence.weight * vec3(dot(transforms[row], whole), dot(transforms[row + 1u], whole),
                                         dot(transforms[row + 2u], whole));
    }
    positions[vertex] = vec4(moved, 1.0);
}
