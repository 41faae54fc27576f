/**
 * Numbers of any of these kinds; only a Float64Array of the deformer's own memory is not copied.
 */
export type Numbers = Float64Array|Float32Array|readonly number[];

/** What is wrong with a file or with the arguments of a call. */
export class UnderstudyError extends Error {}

/** Whether this engine runs WebAssembly at all. */
export const supported: boolean;

/** Whether it runs the faster of the two modules. */
export const simd: boolean;

export interface LoadOptions {
    /** The module to use instead of the file beside this script: its bytes, or compiled. */
    wasm?: BufferSource|WebAssembly.Module;
    /** Which of the two files to use; by default the faster one that this engine runs. */
    simd?: boolean;
}

export interface DeformOptions {
    /** Whether to compute normals too; by default false. */
    normals?: boolean;
}

/** The motion that came with a mesh sequence. */
export interface Clip {
    readonly name: string;
    /** At least 1. */
    readonly frameCount: number;
    /** Frames per second; 0: unknown. */
    readonly frameRate: number;
    /** `world_from_bone` of all bones in one frame: pass it to `deform`. */
    frame(frame: number): Float64Array;
}

/**
 * A loaded file with V vertices, B bones and C controls. Arrays are views of its memory: they are
 * valid as long as it lives, and their place never changes.
 *
 * A bone is a 3x4 matrix, row by row, that maps points from the bone's frame to the world.
 */
export interface Deformer {
    /** V, at least 1. */
    readonly vertexCount: number;
    /** B; 0: the deformer is driven by controls alone. */
    readonly boneCount: number;
    /** C. */
    readonly controlCount: number;
    /** Whether the controls change the result. */
    readonly readsControls: boolean;
    /** The method that fitted the deformer, for example "fdda". */
    readonly method: string;
    /** The unit of length, for example "cm". */
    readonly unit: string;
    /** "Y" or "Z"; "unknown" or empty where the file does not say. */
    readonly upAxis: string;
    /** "right" or "left"; empty where the file does not say. */
    readonly handedness: string;
    /** Whether the file has the range of its training poses, which bounds the correctives. */
    readonly isBounded: boolean;
    /** Whether the controls determine all bones, so that no rig is needed: see `poseBones`. */
    readonly posesBones: boolean;
    /** "simd128" or "portable". */
    readonly instructionSet: string;
    readonly boneNames: readonly string[];
    /** (B) indices of parents, each below that of its bone; -1: a root. */
    readonly boneParents: Int32Array;
    readonly controlNames: readonly string[];
    readonly controlUnits: readonly string[];
    /** (C) the range that the deformer was fitted to, and the values of the rest pose. */
    readonly controlLow: Float64Array;
    readonly controlHigh: Float64Array;
    readonly controlRest: Float64Array;
    /** (B,12) */
    readonly restBones: Float64Array;
    /** (V,3) */
    readonly restPositions: Float32Array;
    /** (T,3) indices of vertices; polygons are triangulated as fans. */
    readonly triangles: Uint32Array;
    readonly clips: readonly Clip[];

    /** (B,12) input of `deform` without arguments; at first the rest pose. */
    readonly bones: Float64Array;
    /** (C) input of `deform` without arguments; at first the rest values. */
    readonly controls: Float64Array;
    /** (V,3) the result of the last call. */
    readonly positions: Float32Array;
    /**
     * (V,3) the normals of the last call that computed them: of unit length, or zero where the
     * triangles around the vertex have no area.
     */
    readonly normals: Float32Array;
    /** The result of the last `computeCoefficients`: basis after basis. */
    readonly coefficients: Float32Array;

    /**
     * Computes one pose into `positions`, and into `normals` if wanted.
     *
     * @param bones     (B,12); by default `bones` of this deformer
     * @param controls  (C); by default `controls` of this deformer
     * @returns `positions`
     * @throws UnderstudyError if an array has another length or contains NaN, infinity or numbers
     *   above 1e18
     */
    deform(bones?: Numbers, controls?: Numbers, options?: DeformOptions): Float32Array;

    /**
     * Computes the coefficients of one pose, for bases that run on the GPU: everything before the
     * bases.
     *
     * @returns `coefficients`
     */
    computeCoefficients(bones?: Numbers, controls?: Numbers): Float32Array;

    /**
     * Returns how far one pose lies from the training poses: at most 1 for each of them;
     * correctives fade from 1 on. 0 where the file has no range of its training poses.
     */
    distanceFromData(bones?: Numbers, controls?: Numbers): number;

    /**
     * Fills `bones` from the controls of the rig that was learned, and returns them. Without
     * arguments it reads `controls`.
     *
     * @throws UnderstudyError without `posesBones`
     */
    poseBones(controls?: Numbers): Float64Array;

    /** Fills `bones` from (B,16) matrices, column after column, as three.js and glTF have them. */
    setBoneMatrices(matrices: Numbers): void;
}

/**
 * Loads a deformer from the bytes of a .understudy file.
 *
 * @throws UnderstudyError if the bytes are not a valid deformer
 */
export function load(bytes: ArrayBuffer|ArrayBufferView, options?: LoadOptions): Promise<Deformer>;
