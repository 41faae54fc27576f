// `Surface`: one subject on the stage, the stand-in or the original, as a lit mesh with lines.

import * as THREE from 'three';
import {LOOKS, isEye, partColour} from './colours';
import type {Scene} from './scene';

/** What all surfaces of a scene have in common. */
export class Shared {
    readonly index: THREE.BufferAttribute;
    readonly edges: THREE.BufferAttribute;
    /** (V,3) colours of the look. */
    base: Uint8Array;
    /** (V,3) direction from the middle of an eye, z along its gaze; zero elsewhere. Null: no eyes. */
    readonly eyes: Float32Array|null;
    #scene: Scene;
    #cavity: Float32Array;

    constructor(scene: Scene) {
        this.#scene = scene;
        this.index = new THREE.BufferAttribute(scene.triangles, 1);
        this.edges = new THREE.BufferAttribute(scene.edges, 1);
        this.#cavity = cavities(scene);
        this.base = this.colours('skin');
        this.eyes = eyeDirections(scene);
    }

    /** Colours of parts, darker and redder in creases. */
    colours(look: string): Uint8Array {
        const {vertexCount, part, parts} = this.#scene;
        const colours = new Uint8Array(3 * vertexCount);
        const ofPart = [null, ...parts.map(partColour)];
        for (let v = 0; v < vertexCount; ++v) {
            const special = look === 'skin' && part ? ofPart[part[v]] : null;
            const colour = special ?? LOOKS[look];
            const crease = special ? 0.3 * this.#cavity[v] : this.#cavity[v];
            colours[3 * v] = colour[0] * (1 - 0.30 * crease);
            colours[3 * v + 1] = colour[1] * (1 - 0.46 * crease);
            colours[3 * v + 2] = colour[2] * (1 - 0.44 * crease);
        }
        return colours;
    }
}

/** Directions on the eyeballs, if the scene has two: the gaze is across the line between them. */
function eyeDirections(scene: Scene): Float32Array|null {
    const eyes = scene.parts.flatMap((name, i) => isEye(name) ? [i + 1] : []);
    if (eyes.length !== 2 || !scene.part) return null;
    const {rest, part} = scene, all = new THREE.Vector3(), p = new THREE.Vector3();
    const middles = eyes.map((eye) => {
        const box = new THREE.Box3();
        for (let v = 0; v < scene.vertexCount; ++v) if (part[v] === eye) box.expandByPoint(p.fromArray(rest, 3 * v));
        return box.getCenter(new THREE.Vector3());
    });
    for (let v = 0; v < scene.vertexCount; ++v) all.add(p.fromArray(rest, 3 * v));
    all.divideScalar(scene.vertexCount);
    const up = scene.up === 'Z' ? new THREE.Vector3(0, 0, 1) : new THREE.Vector3(0, 1, 0);
    const across = middles[1].clone().sub(middles[0]).normalize();
    const gaze = new THREE.Vector3().crossVectors(across, up).normalize();
    if (gaze.dot(middles[0].clone().sub(all)) < 0) gaze.negate();
    const over = new THREE.Vector3().crossVectors(gaze, across);
    const out = new Float32Array(rest.length);
    for (let v = 0; v < scene.vertexCount; ++v) {
        const eye = eyes.indexOf(part[v]);
        if (eye < 0) continue;
        p.fromArray(rest, 3 * v).sub(middles[eye]).normalize();
        out.set([p.dot(across), p.dot(over), p.dot(gaze)], 3 * v);
    }
    return out;
}

/** How deep in a crease each vertex of the rest shape is: 0 to 1. */
function cavities(scene: Scene): Float32Array {
    const {rest, edges, vertexCount} = scene;
    const normals = new Float32Array(rest.length);
    computeNormals(rest, scene.triangles, normals);
    const sum = new Float32Array(vertexCount), count = new Uint16Array(vertexCount);
    for (let e = 0; e < edges.length; e += 2)
        for (const [a, b] of [[edges[e], edges[e + 1]], [edges[e + 1], edges[e]]]) {
            let along = 0, square = 0;
            for (let c = 0; c < 3; ++c) {
                const d = rest[3 * b + c] - rest[3 * a + c];
                along += d * normals[3 * a + c];
                square += d * d;
            }
            sum[a] += along / (Math.sqrt(square) || 1);
            ++count[a];
        }
    for (let v = 0; v < vertexCount; ++v) sum[v] /= count[v] || 1;
    // Once around the neighbours, so that single vertices do not stand out.
    const smooth = sum.slice();
    for (let e = 0; e < edges.length; e += 2) {
        smooth[edges[e]] += sum[edges[e + 1]];
        smooth[edges[e + 1]] += sum[edges[e]];
    }
    return smooth.map((x, v) => Math.min(1, Math.max(0, (x / (1 + count[v]) - 0.03) * 2.4)));
}

/** Writes the unit normals of (V,3) positions. */
export function computeNormals(positions: Float32Array, triangles: Uint32Array, out: Float32Array): void {
    out.fill(0);
    for (let t = 0; t < triangles.length; t += 3) {
        const a = 3 * triangles[t], b = 3 * triangles[t + 1], c = 3 * triangles[t + 2];
        const ux = positions[b] - positions[a], uy = positions[b + 1] - positions[a + 1], uz = positions[b + 2] - positions[a + 2];
        const vx = positions[c] - positions[a], vy = positions[c + 1] - positions[a + 1], vz = positions[c + 2] - positions[a + 2];
        const x = uy * vz - uz * vy, y = uz * vx - ux * vz, z = ux * vy - uy * vx;
        out[a] += x; out[a + 1] += y; out[a + 2] += z;
        out[b] += x; out[b + 1] += y; out[b + 2] += z;
        out[c] += x; out[c + 1] += y; out[c + 2] += z;
    }
    for (let i = 0; i < out.length; i += 3) {
        const length = Math.sqrt(out[i] ** 2 + out[i + 1] ** 2 + out[i + 2] ** 2) || 1;
        out[i] /= length; out[i + 1] /= length; out[i + 2] /= length;
    }
}

/** Direction to the key light in the frame of the world; `stage.ts` sets it. */
export const keyLight = {value: new THREE.Vector3(0, 1, 0)};

/** Skin: light that enters it leaves a little further, so the border of light is soft and red. */
function skinMaterial(eyes: boolean): THREE.MeshStandardMaterial {
    const material = new THREE.MeshStandardMaterial({vertexColors: true, roughness: 0.52, metalness: 0});
    const amount = {value: 1};
    material.userData.scatter = amount;
    material.onBeforeCompile = (shader) => {
        shader.uniforms.keyLight = keyLight;
        shader.uniforms.scatter = amount;
        if (eyes) addEyes(shader);
        shader.fragmentShader = shader.fragmentShader
            .replace('#include <common>', '#include <common>\nuniform vec3 keyLight;\nuniform float scatter;')
            .replace('#include <lights_fragment_end>', `#include <lights_fragment_end>
                vec3 toKey = normalize((viewMatrix * vec4(keyLight, 0.0)).xyz);
                float facing = dot(normal, toKey);
                float wrapped = max(0.0, (facing + 0.42) / 1.42);
                float glow = scatter * max(0.0, wrapped * wrapped - max(0.0, facing));
                reflectedLight.directDiffuse += glow * diffuseColor.rgb * vec3(0.95, 0.34, 0.22);
                float grazing = pow(1.0 - saturate(dot(normal, normalize(vViewPosition))), 3.0);
                reflectedLight.indirectDiffuse += scatter * grazing * 0.16 * diffuseColor.rgb;`);
    };
    return material;
}

/** Iris and pupil, painted where the direction on the eyeball is near its gaze. */
function addEyes(shader: {vertexShader: string, fragmentShader: string}): void {
    shader.vertexShader = shader.vertexShader
        .replace('#include <common>', '#include <common>\nattribute vec3 eye;\nvarying vec3 onEye;')
        .replace('#include <begin_vertex>', '#include <begin_vertex>\nonEye = eye;');
    shader.fragmentShader = shader.fragmentShader
        .replace('#include <common>', '#include <common>\nvarying vec3 onEye;')
        .replace('#include <roughnessmap_fragment>', `#include <roughnessmap_fragment>
            if (length(onEye) > 0.5 && scatter > 0.5) {
                float angle = acos(clamp(normalize(onEye).z, -1.0, 1.0)), soft = fwidth(angle) + 0.012;
                vec3 iris = mix(vec3(0.20, 0.12, 0.06), vec3(0.045, 0.025, 0.014), smoothstep(0.30, 0.42, angle));
                diffuseColor.rgb = mix(iris, diffuseColor.rgb, smoothstep(0.44 - soft, 0.44 + soft, angle));
                diffuseColor.rgb *= smoothstep(0.19 - soft, 0.19 + soft, angle) * 0.98 + 0.02;
                roughnessFactor = 0.12;
            }`);
}

export class Surface {
    readonly positions: Float32Array;
    readonly normals: Float32Array;
    readonly colours: Uint8Array;
    readonly mesh: THREE.Mesh;
    readonly lines: THREE.LineSegments;
    readonly material: THREE.MeshStandardMaterial;
    readonly object = new THREE.Group();
    /** Whether its vertices are those of the current pose. */
    current = false;
    #geometry = new THREE.BufferGeometry();

    /**
     * @param positions  (V,3) memory that the owner fills, with `normals`
     */
    constructor(
        readonly key: string, readonly label: string, shared: Shared, positions: Float32Array, normals: Float32Array) {
        this.positions = positions;
        this.normals = normals;
        this.colours = shared.base.slice();
        const dynamic = (array: Float32Array|Uint8Array, normalized = false) => {
            const attribute = new THREE.BufferAttribute(array, 3, normalized);
            attribute.setUsage(THREE.DynamicDrawUsage);
            return attribute;
        };
        this.#geometry.setAttribute('position', dynamic(positions));
        this.#geometry.setAttribute('normal', dynamic(normals));
        this.#geometry.setAttribute('color', dynamic(this.colours, true));
        this.#geometry.setIndex(shared.index);
        if (shared.eyes) this.#geometry.setAttribute('eye', new THREE.BufferAttribute(shared.eyes, 3));
        this.material = skinMaterial(!!shared.eyes);
        this.mesh = new THREE.Mesh(this.#geometry, this.material);
        this.mesh.castShadow = this.mesh.receiveShadow = true;
        this.mesh.frustumCulled = false;
        const wire = new THREE.BufferGeometry();
        wire.setAttribute('position', this.#geometry.getAttribute('position'));
        wire.setIndex(shared.edges);
        this.lines = new THREE.LineSegments(
            wire, new THREE.LineBasicMaterial({color: 0x10141c, transparent: true, opacity: 0.42}));
        this.lines.frustumCulled = false;
        this.lines.visible = false;
        this.object.add(this.mesh, this.lines);
    }

    /** Uploads vertices and normals. */
    moved(): void {
        this.current = true;
        this.#geometry.getAttribute('position').needsUpdate = true;
        this.#geometry.getAttribute('normal').needsUpdate = true;
    }

    /** Uploads colours; plain: without the glow of skin, so that colours of a map are true. */
    coloured(plain: boolean): void {
        this.material.userData.scatter.value = plain ? 0 : 1;
        this.material.roughness = plain ? 0.9 : 0.52;
        this.#geometry.getAttribute('color').needsUpdate = true;
    }

    /** Draws it in blue where it stands out from another surface, or solid. */
    set ghost(on: boolean) {
        const material = this.material;
        material.transparent = on;
        material.opacity = on ? 0.8 : 1;
        material.depthWrite = !on;
        material.color.set(on ? 0x5aa9ff : 0xffffff);
        // A little behind, so that it shows where it stands out from the other surface.
        material.polygonOffset = on;
        material.polygonOffsetFactor = material.polygonOffsetUnits = on ? 1 : 0;
        this.mesh.castShadow = !on;
        this.mesh.renderOrder = on ? 1 : 0;
    }
}
