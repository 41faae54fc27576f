// Bones as octahedra over the character; a click selects one.

import * as THREE from 'three';
import type {Bones, Scene} from './scene';

const PLAIN = new THREE.Color(0x9fc3ff), CHOSEN = new THREE.Color(0xffb454);

export class BonesView {
    readonly object: THREE.InstancedMesh;
    selected = -1;
    #bones: Bones;
    #tail: Int32Array;  // the bone whose head is the end of each bone; -1: a leaf
    #smallest: number;
    #centres: (THREE.Vector3|null)[];  // in the bone's frame, of bones that no other bone touches

    constructor(bones: Bones, scene: Scene) {
        this.#bones = bones;
        this.#smallest = 0.008 * scene.size;
        this.#centres = centres(bones, scene);
        const count = bones.names.length;
        // Bones below each bone: the child with most of them continues the chain.
        const below = new Int32Array(count).fill(1);
        for (let b = count - 1; b >= 0; --b)
            if (bones.parents[b] >= 0) below[bones.parents[b]] += below[b];
        this.#tail = new Int32Array(count).fill(-1);
        for (let b = 0; b < count; ++b) {
            const parent = bones.parents[b];
            if (parent >= 0 && (this.#tail[parent] < 0 || below[b] > below[this.#tail[parent]])) this.#tail[parent] = b;
        }
        this.object = new THREE.InstancedMesh(octahedron(), new THREE.MeshBasicMaterial({
            transparent: true, opacity: 0.82, depthTest: false, depthWrite: false, vertexColors: true,
        }), count);
        this.object.renderOrder = 10;
        this.object.frustumCulled = false;
        this.colour();
    }

    colour(): void {
        for (let b = 0; b < this.#bones.names.length; ++b)
            this.object.setColorAt(b, b === this.selected ? CHOSEN : PLAIN);
        if (this.object.instanceColor) this.object.instanceColor.needsUpdate = true;
    }

    /** Moves the octahedra: bones (B,12). */
    update(bones: Float64Array): void {
        const matrix = new THREE.Matrix4(), turn = new THREE.Quaternion(), along = new THREE.Vector3();
        const head = new THREE.Vector3(), tail = new THREE.Vector3(), scale = new THREE.Vector3();
        const up = new THREE.Vector3(0, 1, 0);
        const at = (bone: number, out: THREE.Vector3) =>
            out.set(bones[12 * bone + 3], bones[12 * bone + 7], bones[12 * bone + 11]);
        for (let b = 0; b < this.#bones.names.length; ++b) {
            const centre = this.#centres[b];
            if (centre) {
                head.copy(centre).applyMatrix4(matrixOf(bones, b));
                const wide = 4 * this.#smallest;
                matrix.compose(head.addScaledVector(up, -wide / 2), turn.identity(), scale.set(wide / 2, wide, wide / 2));
                this.object.setMatrixAt(b, matrix);
                continue;
            }
            at(b, head);
            const next = this.#tail[b], parent = this.#bones.parents[b];
            if (next >= 0) at(next, tail);
            else if (parent >= 0) {
                at(parent, tail);
                tail.sub(head).negate();
                const length = tail.length();
                tail.multiplyScalar(length ? Math.min(0.5 * length, 3 * this.#smallest) / length : 0).add(head);
            } else tail.copy(head);
            along.copy(tail).sub(head);
            let length = along.length();
            if (length < this.#smallest) {
                if (length < 1e-9) along.copy(up);
                length = this.#smallest;
            }
            turn.setFromUnitVectors(up, along.normalize());
            const width = Math.min(0.13 * length, 2.2 * this.#smallest) + 0.2 * this.#smallest;
            matrix.compose(head, turn, scale.set(width, length, width));
            this.object.setMatrixAt(b, matrix);
        }
        this.object.instanceMatrix.needsUpdate = true;
        this.object.boundingSphere = null;
    }

    /** The bone under a ray; -1: none. */
    pick(caster: THREE.Raycaster): number {
        this.object.computeBoundingSphere();
        return caster.intersectObject(this.object)[0]?.instanceId ?? -1;
    }
}

function matrixOf(bones: Float64Array, bone: number): THREE.Matrix4 {
    const m = bones.subarray(12 * bone, 12 * bone + 12);
    return new THREE.Matrix4(m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8], m[9], m[10], m[11], 0, 0, 0, 1);
}

/**
 * The middle of the vertices of bones without parent and children, in the frame of the bone: such
 * bones were found in a sequence and have no joint. Null: it has others, or no vertices.
 */
function centres(bones: Bones, scene: Scene): (THREE.Vector3|null)[] {
    const {index, weight, shown} = scene.regions, count = bones.names.length;
    const alone = bones.parents.map((parent, b) => parent < 0 && !bones.parents.includes(b));
    const sums = Float64Array.from({length: 4 * count}, () => 0);
    if (!index || !weight || !alone.some(Boolean)) return alone.map(() => null);
    for (let v = 0; v < scene.vertexCount; ++v)
        for (let k = 0; k < shown; ++k) {
            const w = weight[v * shown + k], at = 4 * index[v * shown + k];
            if (w <= 0) continue;
            for (let c = 0; c < 3; ++c) sums[at + c] += w * scene.rest[3 * v + c];
            sums[at + 3] += w;
        }
    return alone.map((is, b) => {
        const total = sums[4 * b + 3];
        if (!is || !total) return null;
        const middle = new THREE.Vector3(sums[4 * b] / total, sums[4 * b + 1] / total, sums[4 * b + 2] / total);
        return middle.applyMatrix4(matrixOf(bones.rest, b).invert());
    });
}

/** From (0,0,0) to (0,1,0), one unit wide; sides differ in brightness, because it is not lit. */
function octahedron(): THREE.BufferGeometry {
    const ring = [[1, 0], [0, 1], [-1, 0], [0, -1]].map(([x, z]) => [x, 0.16, z]);
    const positions: number[] = [], colours: number[] = [];
    for (let side = 0; side < 4; ++side) {
        const a = ring[side], b = ring[(side + 1) % 4];
        const light = [1, 0.72, 0.55, 0.82][side];
        for (const [end, factor] of [[[0, 1, 0], light], [[0, 0, 0], 0.8 * light]] as [number[], number][]) {
            const order = end[1] ? [b, a, end] : [a, b, end];
            for (const p of order) {
                positions.push(...p);
                colours.push(factor, factor, factor);
            }
        }
    }
    const geometry = new THREE.BufferGeometry();
    geometry.setAttribute('position', new THREE.Float32BufferAttribute(positions, 3));
    geometry.setAttribute('color', new THREE.Float32BufferAttribute(colours, 3));
    return geometry;
}
