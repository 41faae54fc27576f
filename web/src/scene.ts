// What the page shows. src/understudy/viewer/scene.py writes it.

import {load} from '../../js/understudy.js';
import type {Deformer} from '../../js/understudy.js';
import {Container, SceneError} from './container';
import {posingSkeleton} from './ik';
import type {PosingSkeleton} from './ik';

export interface Control {
    name: string;
    unit: string;
    low: number;
    high: number;
    limits: [number, number];
    rest: number;
    numeric: boolean;
    /** Whether it changes what is shown: the deformer reads it, or the live rig does. */
    read: boolean;
    /** Body part, for the sliders. */
    group: string;
}

export interface Bones {
    names: string[];
    parents: number[];
    groups: string[];
    rest: Float64Array;
}

export interface Model {
    label: string;
    /** Size of its file. */
    bytes: number;
    storage: string;
    /** Whether it was made of the first model: its skin alone. */
    derived: boolean;
    deformer: Deformer;
}

/** A function that is run at its first call; clips are decoded when they are shown. */
function once<T>(make: () => T): () => T {
    let made: T|undefined;
    return () => made ??= make();
}

/** Frames that were stored as weights and a basis; see src/understudy/viewer/packing.py. */
export class Frames {
    readonly mean: number;
    readonly largest: number;
    #weights: Float32Array;
    #basis: () => Int16Array|Int32Array;
    #step: number;
    #rank: number;
    #base: Float32Array|null;  // (V,3) what is added to; null: what the first model shows

    constructor(container: Container, name: string, about: any) {
        this.mean = about.mean;
        this.largest = about.largest;
        this.#step = about.step;
        this.#weights = container.floats(`${name}.weights`);
        this.#rank = container.shape(`${name}.weights`)[1];
        this.#basis = once(() => {
            const basis = container.whole(`${name}.basis`);
            let largest = 0;
            for (let i = 0; i < basis.length; ++i) largest = Math.max(largest, Math.abs(basis[i]));
            return largest < 32768 ? new Int16Array(basis) : basis;
        });
        this.#base = container.has(`${name}.mean`) ? container.floats(`${name}.mean`) : null;
    }

    /** Writes the (V,3) positions of a frame to `out`. */
    decode(frame: number, predicted: Float32Array, out: Float32Array): void {
        const rank = this.#rank, count = out.length / 3, basis = this.#basis();
        const sum = new Float32Array(out.length);
        for (let k = 0; k < rank; ++k) {
            const weight = this.#weights[frame * rank + k] * this.#step, start = k * out.length;
            for (let i = 0; i < sum.length; ++i) sum[i] += weight * basis[start + i];
        }
        const base = this.#base ?? predicted;
        for (let i = 0; i < count; ++i) {
            out[3 * i] = base[3 * i] + sum[i];
            out[3 * i + 1] = base[3 * i + 1] + sum[count + i];
            out[3 * i + 2] = base[3 * i + 2] + sum[2 * count + i];
        }
    }
}

/** Bones of a clip that were stored relative to their parents. */
class ClipBones {
    #numbers: () => Int32Array;
    #steps: [number, number];
    #parents: ArrayLike<number>|null;

    constructor(container: Container, about: any, parents: ArrayLike<number>) {
        this.#numbers = once(() => container.whole(about.array));
        this.#steps = about.steps;
        this.#parents = about.relative ? parents : null;
    }

    /** Writes `world_from_bone` of a frame, (B,12). */
    decode(frame: number, out: Float64Array): void {
        const [turn, move] = this.#steps, start = frame * out.length, numbers = this.#numbers();
        for (let i = 0; i < out.length; ++i)
            out[i] = numbers[start + i] * (i % 4 === 3 ? move : turn);
        const parents = this.#parents;
        if (!parents) return;
        for (let bone = 0; bone < out.length / 12; ++bone)
            if (parents[bone] >= 0) compose(out, 12 * parents[bone], out, 12 * bone);
    }
}

/** b = a @ b of two 3x4 matrices inside arrays. */
function compose(a: Float64Array, i: number, b: Float64Array, j: number): void {
    for (let column = 0; column < 4; ++column) {
        const x = b[j + column], y = b[j + 4 + column], z = b[j + 8 + column];
        const w = column === 3 ? 1 : 0;
        for (let row = 0; row < 3; ++row)
            b[j + 4 * row + column] = a[i + 4 * row] * x + a[i + 4 * row + 1] * y +
                a[i + 4 * row + 2] * z + a[i + 4 * row + 3] * w;
    }
}

export interface Clip {
    name: string;
    frames: number;
    /** Frames of the original clip, of which the first are here. */
    of: number;
    rate: number;
    start: number;
    /** One for each model; null: it has no bones. */
    bones: (ClipBones|null)[];
    /** (F,C) what the deformers read. */
    controls: Float32Array|null;
    /** (F,C) the controls of the live rig. */
    rigControls: Float32Array|null;
    original: Frames|null;
    /** For each model: mean and largest error of every frame. */
    errors: {mean: Float32Array, largest: Float32Array}[];
}

export interface Regions {
    /** (V,K) bones and weights (0 to 255) of each vertex. */
    index: Int32Array|null;
    weight: Int32Array|null;
    shown: number;
    /** (V) the network that moves a vertex most; -1: none. */
    groups: Int32Array|null;
    groupCount: number;
    groupNames: string[];
    /** (V) the virtual bone of a vertex. */
    virtual: Int32Array|null;
    virtualCount: number;
    /** Vertices that networks predict directly. */
    anchors: Int32Array|null;
}

export interface Scene {
    title: string;
    /** Unit of length for the user: "cm"; "units" where the file does not say. */
    unit: string;
    up: string;
    leftHanded: boolean;
    /** Height of the character. */
    size: number;
    vertexCount: number;
    polygonCount: number;
    models: Model[];
    rest: Float32Array;
    triangles: Uint32Array;
    /** (E,2) */
    edges: Uint32Array;
    /** (V) 0: none, else number of the part plus one. */
    part: Int32Array|null;
    parts: string[];
    bones: Bones|null;
    controls: Control[];
    clips: Clip[];
    regions: Regions;
    live: {rig: string, has_bones: boolean}|null;
    /** How to pose the first model without its rig; null: its file does not say. */
    posing: PosingSkeleton|null;
}

/** @param wasm  the WebAssembly module of the runtime */
export async function readScene(bytes: Uint8Array, wasm: Uint8Array<ArrayBuffer>): Promise<Scene> {
    const container = new Container(bytes), about = container.about;
    if (about.version !== 1)
        throw new SceneError(`This page shows scenes of version 1; this one has ${about.version}.`);
    const module = await WebAssembly.compile(wasm);
    const models: Model[] = [];
    for (const [number, model] of about.models.entries())
        models.push({...model, deformer: await load(container.file(`model.${number}`), {wasm: module})});
    const first = models[0]?.deformer;
    const bones = about.bones ?
        {...about.bones, rest: Float64Array.from(container.floats('bones.rest'))} as Bones : null;
    const regions = about.regions ?? {};
    const whole = (name: string) => container.has(name) ? container.whole(name) : null;
    return {
        title: about.title,
        unit: about.unit === 'unitless' ? 'units' : about.unit,
        up: about.up,
        leftHanded: about.handedness === 'left',
        size: about.size,
        vertexCount: about.vertices,
        polygonCount: about.polygons,
        models,
        rest: first ? first.restPositions.slice() : container.floats('mesh.rest'),
        triangles: first ? first.triangles.slice() : container.indices('mesh.triangles'),
        edges: Uint32Array.from(container.whole('mesh.edges')),
        part: whole('mesh.part'),
        parts: about.parts ?? [],
        bones,
        controls: about.controls,
        clips: about.clips.map((clip: any, number: number) => readClip(container, clip, number, models, bones)),
        regions: {
            index: whole('skin.index'),
            weight: whole('skin.weight'),
            shown: container.has('skin.index') ? container.shape('skin.index')[1] : 0,
            groups: whole('groups'),
            groupCount: regions.groups ?? 0,
            groupNames: regions.group_names ?? [],
            virtual: whole('skin.virtual'),
            virtualCount: regions.virtual_bones ?? 0,
            anchors: whole('anchors'),
        },
        live: about.live ?? null,
        posing: models.length ? readPosing(container.file('model.0')) : null,
    };
}

function readPosing(file: Uint8Array): PosingSkeleton|null {
    const own = new Container(file, 'understudy');
    return posingSkeleton((name) => own.numbers(name), own.about);
}

function readControls(container: Container, name: string, steps: number[]): Float32Array {
    return Float32Array.from(container.whole(name), (value, i) => value * steps[i % steps.length]);
}

function readClip(container: Container, about: any, number: number, models: Model[], bones: Bones|null): Clip {
    const name = `clip.${number}`;
    const made = new Map<string, ClipBones>();
    const floats = (key: string) => container.has(`${name}.${key}`) ? container.floats(`${name}.${key}`) : null;
    const errors = floats('errors'), frames: number = about.frames;
    return {
        name: about.name,
        frames,
        of: about.of,
        rate: about.rate,
        start: about.start,
        bones: (about.bones ?? []).map((entry: any, model: number) => {
            if (!entry) return null;
            const parents = models[model]?.deformer.boneParents ?? bones?.parents ?? [];
            let found = made.get(entry.array);
            if (!found) made.set(entry.array, found = new ClipBones(container, entry, parents));
            return found;
        }),
        controls: about.controls ? readControls(container, `${name}.controls`, about.controls) : null,
        rigControls: floats('rig_controls'),
        original: about.original ? new Frames(container, `${name}.original`, about.original) : null,
        errors: errors ? models.map((_, model) => ({
            mean: errors.subarray(2 * model * frames, (2 * model + 1) * frames),
            largest: errors.subarray((2 * model + 1) * frames, (2 * model + 2) * frames),
        })) : [],
    };
}
