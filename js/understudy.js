// Plays .understudy deformers in Node and in browsers: the C++ runtime as WebAssembly.
// README.md explains the functions, understudy.d.ts has their types.

/** What is wrong with a file or with the arguments of a call. */
export class UnderstudyError extends Error {
    constructor(message) {
        super(message);
        this.name = 'UnderstudyError';
    }
}

// The smallest module that uses an instruction of the SIMD extension.
const SIMD_PROBE = new Uint8Array([
    0, 97, 115, 109, 1,  0, 0, 0, 1,  5, 1,   96, 0,   1,  123, 3,
    2, 1,  0,   10,  10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);

/** Whether this engine runs WebAssembly at all. */
export const supported =
    typeof WebAssembly === 'object' && typeof WebAssembly.instantiate === 'function';

/** Whether it runs the faster of the two modules. */
export const simd = supported && WebAssembly.validate(SIMD_PROBE);

const STATUS = [
    null,
    'bones or controls are missing',
    'bones or controls contain NaN, infinity or numbers above 1e18',
    'the scratch belongs to another deformer',
    'the output overlaps the input',
];

const compiled = new Map();  // by URL: a promise of the module

async function readModule(url) {
    if (url.protocol === 'file:') {
        const {readFile} =
            await import(/* webpackIgnore: true */ /* @vite-ignore */ 'node:fs/promises');
        return WebAssembly.compile(await readFile(url));
    }
    const response = await fetch(url);
    if (!response.ok)
        throw new UnderstudyError(`${url}: ${response.status} ${response.statusText}`);
    return WebAssembly.compile(await response.arrayBuffer());
}

function moduleOf(options) {
    if (!supported) throw new UnderstudyError('this engine has no WebAssembly');
    if (options.wasm instanceof WebAssembly.Module) return options.wasm;
    if (options.wasm) return WebAssembly.compile(options.wasm);
    const url = (options.simd ?? simd) ? new URL('./understudy.simd.wasm', import.meta.url) :
                                         new URL('./understudy.wasm', import.meta.url);
    if (!compiled.has(url.href)) {
        const module = readModule(url);
        module.catch(() => compiled.delete(url.href));
        compiled.set(url.href, module);
    }
    return compiled.get(url.href);
}

/**
 * Loads a deformer from the bytes of a .understudy file. Each deformer has memory of its own, which
 * the garbage collector frees with it.
 */
export async function load(bytes, options = {}) {
    const data = bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes;
    if (!ArrayBuffer.isView(data))
        throw new UnderstudyError('expected the bytes of a file, as ArrayBuffer or Uint8Array');
    const instance = await WebAssembly.instantiate(await moduleOf(options), {});
    return new Deformer(
        instance.exports, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
}

const decoder = new TextDecoder();

/** A loaded file. Arrays are views of its memory: they are valid as long as it lives. */
class Deformer {
    #wasm;
    #model;
    #scratch;
    #distance;

    constructor(wasm, bytes) {
        this.#wasm = wasm;
        wasm._initialize?.();
        this.#model = this.#loaded(bytes);
        const model = this.#model;
        const names = (count, name) =>
            Array.from({length: count}, (_, i) => this.#text(name(model, i)));
        this.vertexCount = wasm.understudy_vertex_count(model);
        this.boneCount = wasm.understudy_bone_count(model);
        this.controlCount = wasm.understudy_control_count(model);
        this.readsControls = wasm.understudy_reads_controls(model) !== 0;
        this.posesBones = wasm.understudy_poses_bones(model) !== 0;
        this.isBounded = wasm.understudy_is_bounded(model) !== 0;
        this.method = this.#text(wasm.understudy_method(model));
        this.unit = this.#text(wasm.understudy_unit(model));
        this.upAxis = this.#text(wasm.understudy_up_axis(model));
        this.handedness = this.#text(wasm.understudy_handedness(model));
        this.instructionSet = this.#text(wasm.understudy_instruction_set());
        this.boneNames = names(this.boneCount, wasm.understudy_bone_name);
        this.boneParents = Int32Array.from(
            {length: this.boneCount}, (_, i) => wasm.understudy_bone_parent(model, i));
        this.controlNames = names(this.controlCount, wasm.understudy_control_name);
        this.controlUnits = names(this.controlCount, wasm.understudy_control_unit);

        const coefficientCount = this.#gpuCounts()[1];

        // All memory is taken here: it never grows afterwards, so that views stay valid.
        this.#scratch = wasm.understudy_create_scratch(model, 0);
        const places = {
            bones: this.#allocate(8 * 12 * this.boneCount),
            controls: this.#allocate(8 * this.controlCount),
            positions: this.#allocate(4 * 3 * this.vertexCount),
            normals: this.#allocate(4 * 3 * this.vertexCount),
            coefficients: this.#allocate(4 * coefficientCount),
            distance: this.#allocate(4),
        };
        if (!this.#scratch) throw new UnderstudyError('not enough memory for this file');

        this.restBones = this.#doubles(wasm.understudy_rest_bones(model), 12 * this.boneCount);
        this.restPositions =
            this.#floats(wasm.understudy_rest_positions(model), 3 * this.vertexCount);
        this.triangles = new Uint32Array(
            wasm.memory.buffer, wasm.understudy_triangles(model) >>> 0,
            3 * wasm.understudy_triangle_count(model));
        this.controlLow = this.#doubles(wasm.understudy_control_low(model), this.controlCount);
        this.controlHigh = this.#doubles(wasm.understudy_control_high(model), this.controlCount);
        this.controlRest = this.#doubles(wasm.understudy_control_rest(model), this.controlCount);
        this.clips =
            Array.from({length: wasm.understudy_clip_count(model)}, (_, clip) => this.#clip(clip));

        this.bones = this.#doubles(places.bones, 12 * this.boneCount);
        this.controls = this.#doubles(places.controls, this.controlCount);
        this.positions = this.#floats(places.positions, 3 * this.vertexCount);
        this.normals = this.#floats(places.normals, 3 * this.vertexCount);
        this.coefficients = this.#floats(places.coefficients, coefficientCount);
        this.#distance = this.#floats(places.distance, 1);
        this.bones.set(this.restBones);
        this.controls.set(this.controlRest);
        this.positions.set(this.restPositions);
    }

    /**
     * Computes one pose into `positions`, and into `normals` if wanted, and returns `positions`.
     * Without arguments it reads `bones` and `controls`.
     */
    deform(bones = this.bones, controls = this.controls, options = {}) {
        const status = this.#wasm.understudy_deform(
            this.#model, this.#scratch, this.#input('bones', bones, this.bones),
            this.#input('controls', controls, this.controls), this.positions.byteOffset,
            options.normals ? this.normals.byteOffset : 0);
        if (status) throw new UnderstudyError(STATUS[status] ?? `status ${status}`);
        return this.positions;
    }

    /**
     * Computes the coefficients of one pose, everything before the bases, into `coefficients`, and
     * returns these.
     */
    computeCoefficients(bones = this.bones, controls = this.controls) {
        const status = this.#wasm.understudy_coefficients(
            this.#model, this.#scratch, this.#input('bones', bones, this.bones),
            this.#input('controls', controls, this.controls), this.coefficients.byteOffset);
        if (status) throw new UnderstudyError(STATUS[status] ?? `status ${status}`);
        return this.coefficients;
    }

    /** Returns how far one pose lies from the training poses: at most 1 for each of them. */
    distanceFromData(bones = this.bones, controls = this.controls) {
        const status = this.#wasm.understudy_distance_from_data(
            this.#model, this.#scratch, this.#input('bones', bones, this.bones),
            this.#input('controls', controls, this.controls), this.#distance.byteOffset);
        if (status) throw new UnderstudyError(STATUS[status] ?? `status ${status}`);
        return this.#distance[0];
    }

    /**
     * Fills `bones` from the controls of the rig that was learned, and returns them. Only if
     * `posesBones`.
     */
    poseBones(controls = this.controls) {
        if (!this.posesBones)
            throw new UnderstudyError('the controls of this file do not determine its bones');
        const status = this.#wasm.understudy_pose_bones(
            this.#model, this.#input('controls', controls, this.controls), this.bones.byteOffset);
        if (status) throw new UnderstudyError(STATUS[status] ?? `status ${status}`);
        return this.bones;
    }

    /** Fills `bones` from 4x4 matrices, column after column, as three.js and glTF have them. */
    setBoneMatrices(matrices) {
        if (matrices?.length !== 16 * this.boneCount)
            throw new UnderstudyError(
                `matrices: expected ${16 * this.boneCount} numbers, got ${matrices?.length}`);
        for (let bone = 0; bone < this.boneCount; ++bone)
            for (let i = 0; i < 12; ++i)
                this.bones[12 * bone + i] = matrices[16 * bone + (i % 4) * 4 + (i >> 2)];
    }

    // The address of an input. Arrays outside this memory are copied into it.
    #input(name, given, own) {
        if (!given || given.length !== own.length)
            throw new UnderstudyError(
                `${name}: expected ${own.length} numbers, got ${given?.length}`);
        if (given.buffer === own.buffer && given instanceof Float64Array) return given.byteOffset;
        own.set(given);
        return own.byteOffset;
    }

    #loaded(bytes) {
        const wasm = this.#wasm;
        const size = 256;
        const message = this.#allocate(size);
        const place = this.#allocate(bytes.length);
        new Uint8Array(wasm.memory.buffer).set(bytes, place);
        const model = wasm.understudy_load_memory(place, bytes.length, message, size);
        wasm.free(place);
        if (!model) throw new UnderstudyError(this.#text(message));
        wasm.free(message);
        return model;
    }

    #clip(clip) {
        const wasm = this.#wasm;
        const frameCount = wasm.understudy_clip_frame_count(this.#model, clip);
        return Object.freeze({
            name: this.#text(wasm.understudy_clip_name(this.#model, clip)),
            frameCount,
            frameRate: wasm.understudy_clip_frame_rate(this.#model, clip),
            frame: (frame) => {
                if (!Number.isInteger(frame) || frame < 0 || frame >= frameCount)
                    throw new UnderstudyError(
                        `frame: expected 0 to ${frameCount - 1}, got ${frame}`);
                return this.#doubles(
                    wasm.understudy_clip_frame(this.#model, clip, frame), 12 * this.boneCount);
            },
        });
    }

    // The members of understudy_gpu_counts.
    #gpuCounts() {
        const place = this.#allocate(4 * 6);
        this.#wasm.understudy_count_gpu_arrays(place, this.#model);
        const counts = new Uint32Array(this.#wasm.memory.buffer, place, 6).slice();
        this.#wasm.free(place);
        return counts;
    }

    #allocate(size) {
        const place = this.#wasm.malloc(Math.max(size, 1)) >>> 0;
        if (!place) throw new UnderstudyError('not enough memory for this file');
        return place;
    }

    #text(address) {
        const bytes = new Uint8Array(this.#wasm.memory.buffer);
        return decoder.decode(bytes.subarray(address >>> 0, bytes.indexOf(0, address >>> 0)));
    }

    #doubles(address, count) {
        return new Float64Array(this.#wasm.memory.buffer, address >>> 0, count);
    }

    #floats(address, count) {
        return new Float32Array(this.#wasm.memory.buffer, address >>> 0, count);
    }
}
