// `PosingModel`: the posing skeleton of a .understudy file. It turns the values of degrees of freedom
// (dofs) into bones and back. docs/posing.md explains it; src/understudy/core/posing.py is the
// reference that tests compare with.
//
// A dof is one channel of a bone's motion (rotation x y z, move x y z, stretch xx yy zz yz xz xy), or
// a control. Other channels follow polynomials of dofs, the drivers. Angles are in radians here.

export type Numbers = Float32Array|Float64Array|Int32Array;
export type ReadArray = (name: string) => Numbers|null;

/** One polynomial: the motion of a helper bone. */
export interface Driver {
    readonly bone: number;
    readonly channels: Int32Array;
    readonly inputs: Int32Array;
    readonly degree: number;
    /** (terms, channels) */
    readonly coefficients: Float64Array;
    /** For each term the inputs that it multiplies, as indices into `inputs`. */
    readonly terms: readonly (readonly number[])[];
}

export interface HandleEntry {
    readonly name: string;
    readonly role: 'hand'|'foot'|'head'|'pelvis'|'end';
    readonly side: 'left'|'right'|'middle';
    readonly bone: number;
}

const CHANNELS = 12;
const WIDEST = 1.25;
const MAX_INPUTS = 16, MAX_DEGREE = 7, MAX_TERMS = 1024;
export const ORDERS = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] as const;
const ROW = [0, 1, 2, 1, 0, 0], COLUMN = [0, 1, 2, 2, 2, 1];
const ROLES = ['hand', 'foot', 'head', 'pelvis', 'end'], SIDES = ['left', 'right', 'middle'];

export class PosingModel {
    readonly boneCount: number;
    readonly dofCount: number;
    readonly controlCount: number;
    readonly dofNames: readonly string[];
    readonly boneNames: readonly string[];
    readonly unit: string;
    /** (B) what each bone follows; -1: a root. Not always the skeleton's own. */
    readonly parents: Int32Array;
    /** (B) all bones, parents before children. */
    readonly sequence: Int32Array;
    /** (B,12) */
    readonly rest: Float64Array;
    /** (B,9) the axes F of each joint as columns, row by row. */
    readonly axes: Float64Array;
    /** (B,9) C F: the axes after the joint's reference rotation. */
    readonly turnedAxes: Float64Array;
    /** (B) indices into ORDERS. */
    readonly order: Int32Array;
    /** (B,3) from the parent at rest. */
    readonly offset: Float64Array;
    /** (D) bone of each dof; -1: a control. */
    readonly dofBone: Int32Array;
    /** (D) channel of the motion, or the control. */
    readonly dofChannel: Int32Array;
    /** Whether every dof is a control of the rig that was learned: these determine all bones. */
    readonly fromControls: boolean;
    /** (C) units of the controls. */
    readonly controlUnits: readonly string[];
    readonly low: Float64Array;
    readonly high: Float64Array;
    readonly restValues: Float64Array;
    readonly middle: Float64Array;
    readonly half: Float64Array;
    readonly drivers: readonly Driver[];
    readonly handles: readonly HandleEntry[];
    readonly mirrorAxis: number;
    readonly mirrorBone: Int32Array;
    readonly mirrorControl: Int32Array;
    readonly parts: readonly string[];
    readonly bonePart: Int32Array;
    readonly errors: {readonly mean: number; readonly max: number};
    readonly notes: readonly string[];
    /** (B,9) the inverse of the rest bones' linear part. */
    readonly #fromRest: Float64Array;
    readonly #reference: Float64Array;
    readonly #controlRest: Float64Array;
    // Scratch.
    readonly #motion: Float64Array;
    readonly #turn: Float64Array;
    readonly #place: Float64Array;

    /**
     * @param arrays  the arrays of the file by name
     * @param header  the JSON of its metadata key `understudy`, with the entries of docs/file-format.md
     * @throws Error if the section is damaged
     */
    constructor(arrays: ReadArray, header: any) {
        this.boneNames = texts(header['skeleton.names'], 'bone names');
        this.dofNames = texts(header['posing.dof_names'], 'dof names');
        const bones = this.boneCount = this.boneNames.length, dofs = this.dofCount = this.dofNames.length;
        const controls = this.controlCount = texts(header['controls.names'] ?? [], 'controls').length;
        const read = reader(arrays);
        this.unit = String(header['mesh.unit'] ?? '');
        this.parents = read.index('posing.parents', bones, bones, -1);
        this.sequence = parentsFirst(this.parents);
        check(this.sequence.length === bones, 'posing.parents');
        this.rest = read.floats('skeleton.world_from_bone', 12 * bones);
        const axes = read.floats('posing.axes', 3 * bones), reference = read.floats('posing.reference', 3 * bones);
        this.order = read.index('posing.order', bones, ORDERS.length);
        this.parts = texts(header['posing.parts'], 'parts');
        this.bonePart = read.index('posing.bone_part', bones, this.parts.length);
        this.mirrorBone = read.index('posing.mirror_bone', bones, bones);
        this.mirrorControl = read.index('posing.mirror_control', controls, controls);
        this.mirrorAxis = read.index('posing.mirror_axis', 1, 3, -1)[0];
        this.dofBone = read.index('posing.dof_bone', dofs, bones, -1);
        this.dofChannel = read.index('posing.dof_channel', dofs, Math.max(CHANNELS, controls));
        check(this.dofBone.every((bone, j) => this.dofChannel[j] < (bone < 0 ? controls : CHANNELS)), 'posing.dof_channel');
        this.fromControls = dofs > 0 && this.dofBone.every((bone) => bone < 0);
        this.controlUnits = texts(header['controls.units'] ?? [], 'units');
        this.low = read.floats('posing.dof_low', dofs);
        this.high = read.floats('posing.dof_high', dofs);
        this.restValues = read.floats('posing.dof_rest', dofs);
        check(this.low.every((low, j) => low < this.high[j] && low <= this.restValues[j] && this.restValues[j] <= this.high[j]), 'limits');
        this.middle = this.low.map((low, j) => 0.5 * (low + this.high[j]));
        this.half = this.low.map((low, j) => 0.5 * (this.high[j] - low));
        this.drivers = readDrivers(read, bones, dofs);
        const names = texts(header['posing.handle_names'], 'handles');
        const handleBones = read.index('posing.handle_bones', names.length, bones);
        this.handles = names.map((name, k) => {
            const role = header['posing.handle_roles']?.[k], side = header['posing.handle_sides']?.[k];
            check(ROLES.includes(role) && SIDES.includes(side), 'handles');
            return {name, role, side, bone: handleBones[k]};
        });
        const errors = header['posing.errors'];
        this.errors = {mean: Number(errors?.mean) || 0, max: Number(errors?.max) || 0};
        this.notes = texts(header['posing.notes'], 'notes');
        this.#controlRest = controls ? read.floats('controls.rest', controls) : new Float64Array(0);

        this.axes = new Float64Array(9 * bones);
        this.turnedAxes = new Float64Array(9 * bones);
        this.#reference = new Float64Array(9 * bones);
        this.#fromRest = new Float64Array(9 * bones);
        this.offset = new Float64Array(3 * bones);
        for (let b = 0; b < bones; ++b) {
            rotationFromVector(axes, 3 * b, this.axes, 9 * b);
            rotationFromVector(reference, 3 * b, this.#reference, 9 * b);
            multiply(this.#reference, 9 * b, this.axes, 9 * b, this.turnedAxes, 9 * b);
            invert(this.rest, 12 * b, this.#fromRest, 9 * b);
            const p = this.parents[b];
            for (let i = 0; i < 3; ++i)
                this.offset[3 * b + i] = this.rest[12 * b + 4 * i + 3] - (p < 0 ? 0 : this.rest[12 * p + 4 * i + 3]);
        }
        this.#motion = new Float64Array(CHANNELS * bones);
        this.#turn = new Float64Array(9 * bones);
        this.#place = new Float64Array(3 * bones);
    }

    /** Fills the motion (B,12) of all bones. */
    motion(values: Float64Array, out: Float64Array): void {
        out.fill(0);
        for (const driver of this.drivers) this.drive(driver, values, out);
        for (let j = 0; j < this.dofCount; ++j)
            if (this.dofBone[j] >= 0) out[CHANNELS * this.dofBone[j] + this.dofChannel[j]] = values[j];
    }

    /** Adds the channels of one driver to a motion (B,12). */
    drive({bone, channels, inputs, degree, coefficients, terms}: Driver, values: Float64Array, motion: Float64Array): void {
        const x = DRIVER_X, count = channels.length;
        this.inputsOf(inputs, degree, values, x);
        for (let t = 0; t < terms.length; ++t) {
            let product = 1;
            for (const factor of terms[t]) product *= x[factor];
            for (let k = 0; k < count; ++k) motion[CHANNELS * bone + channels[k]] += product * coefficients[t * count + k];
        }
    }

    /** Fills x, the inputs of a driver from -1 to 1. */
    inputsOf(inputs: Int32Array, degree: number, values: Float64Array, x: Float64Array): void {
        for (let i = 0; i < inputs.length; ++i) {
            const j = inputs[i], scaled = (values[j] - this.middle[j]) / this.half[j];
            x[i] = degree < 2 ? scaled : Math.min(WIDEST, Math.max(-WIDEST, scaled));
        }
    }

    /** Fills the bones (B,12) at some values. */
    pose(values: Float64Array, out: Float64Array): void {
        const motion = this.#motion, turn = this.#turn, place = this.#place;
        this.motion(values, motion);
        const local = MATRIX_A, stretch = MATRIX_B, linear = MATRIX_C;
        for (const b of this.sequence) {
            const p = this.parents[b];
            this.localRotation(b, motion, local);
            if (p < 0) copy9(local, 0, turn, 9 * b);
            else multiply(turn, 9 * p, local, 0, turn, 9 * b);
            this.placeOf(b, motion, turn, place);
            copyRestLinear(this.rest, 12 * b, linear);
            if (hasStretch(motion, CHANNELS * b)) {
                this.#stretchOf(b, motion, stretch);
                multiply(stretch, 0, linear, 0, MATRIX_D, 0);
                multiply(turn, 9 * b, MATRIX_D, 0, linear, 0);
            } else {
                copy9(linear, 0, MATRIX_D, 0);
                multiply(turn, 9 * b, MATRIX_D, 0, linear, 0);
            }
            for (let i = 0; i < 3; ++i) {
                for (let k = 0; k < 3; ++k) out[12 * b + 4 * i + k] = linear[3 * i + k];
                out[12 * b + 4 * i + 3] = place[3 * b + i];
            }
        }
    }

    /** Fills the rotation (9) of a bone relative to its parent, in the axes of the rest pose. */
    localRotation(b: number, motion: Float64Array, out: Float64Array): void {
        const a = CHANNELS * b;
        if (motion[a] === 0 && motion[a + 1] === 0 && motion[a + 2] === 0) {
            copy9(this.#reference, 9 * b, out, 0);
            return;
        }
        rotationFromAngles(motion, a, ORDERS[this.order[b]], MATRIX_E);
        multiply(this.turnedAxes, 9 * b, MATRIX_E, 0, MATRIX_F, 0);
        multiplyTransposed(MATRIX_F, 0, this.axes, 9 * b, out, 0);
    }

    /** Fills the place (3) of a bone among those of all bones, given rotations (B,9) in the world. */
    placeOf(b: number, motion: Float64Array, turn: Float64Array, place: Float64Array): void {
        const p = this.parents[b], f = 9 * b, m = CHANNELS * b + 3, {axes, offset} = this;
        const x = offset[3 * b] + axes[f] * motion[m] + axes[f + 1] * motion[m + 1] + axes[f + 2] * motion[m + 2];
        const y = offset[3 * b + 1] + axes[f + 3] * motion[m] + axes[f + 4] * motion[m + 1] + axes[f + 5] * motion[m + 2];
        const z = offset[3 * b + 2] + axes[f + 6] * motion[m] + axes[f + 7] * motion[m + 1] + axes[f + 8] * motion[m + 2];
        for (let i = 0; i < 3; ++i) {
            const t = 9 * p + 3 * i;
            place[3 * b + i] = p < 0 ? (i === 0 ? x : i === 1 ? y : z) :
                place[3 * p + i] + turn[t] * x + turn[t + 1] * y + turn[t + 2] * z;
        }
    }

    /** Returns the values of the dofs in a pose (B,12), not limited; controls are at rest if not given. */
    read(bones: ArrayLike<number>, controls?: ArrayLike<number>): Float64Array {
        return this.#fromMotion(this.#motionOf(bones), controls ?? this.#controlRest);
    }

    /** Returns the values of the mirrored pose, within the limits. */
    mirrored(values: Float64Array): Float64Array {
        if (this.mirrorAxis < 0) return values.slice();
        const motion = new Float64Array(CHANNELS * this.boneCount), result = new Float64Array(motion.length);
        const controls = this.#controlRest.slice();
        this.motion(values, motion);
        for (let j = 0; j < this.dofCount; ++j) if (this.dofBone[j] < 0) controls[this.dofChannel[j]] = values[j];
        const flip = [1, 1, 1];
        flip[this.mirrorAxis] = -1;
        const local = MATRIX_A, stretch = MATRIX_B;
        for (let b = 0; b < this.boneCount; ++b) {
            const from = this.mirrorBone[b];
            this.localRotation(from, motion, local);
            this.#stretchOf(from, motion, stretch);
            const move = [0, 0, 0];
            for (let i = 0; i < 3; ++i)
                for (let k = 0; k < 3; ++k) {
                    local[3 * i + k] *= flip[i] * flip[k];
                    stretch[3 * i + k] *= flip[i] * flip[k];
                    move[i] += this.axes[9 * from + 3 * i + k] * motion[CHANNELS * from + 3 + k] * flip[i];
                }
            this.#jointMotion(b, local, move, stretch, result);
        }
        const swapped = controls.map((_, c) => controls[this.mirrorControl[c]]);
        return this.limit(this.#fromMotion(result, swapped));
    }

    /** Limits values in place. */
    limit(values: Float64Array): Float64Array {
        for (let j = 0; j < this.dofCount; ++j)
            values[j] = values[j] >= this.low[j] ? Math.min(this.high[j], values[j]) : this.low[j];
        return values;
    }

    #fromMotion(motion: Float64Array, controls: ArrayLike<number>): Float64Array {
        return Float64Array.from(this.dofBone, (bone, j) =>
            bone < 0 ? controls[this.dofChannel[j]] : motion[CHANNELS * bone + this.dofChannel[j]]);
    }

    /** P - I of a bone becomes P in the axes of the rest pose. */
    #stretchOf(b: number, motion: Float64Array, out: Float64Array): void {
        const p = MATRIX_E;
        for (let i = 0; i < 6; ++i)
            p[3 * ROW[i] + COLUMN[i]] = p[3 * COLUMN[i] + ROW[i]] = motion[CHANNELS * b + 6 + i];
        multiply(this.axes, 9 * b, p, 0, MATRIX_F, 0);
        multiplyTransposed(MATRIX_F, 0, this.axes, 9 * b, out, 0);
        out[0] += 1;
        out[4] += 1;
        out[8] += 1;
    }

    #motionOf(bones: ArrayLike<number>): Float64Array {
        const result = new Float64Array(CHANNELS * this.boneCount);
        const turn = new Float64Array(9 * this.boneCount), local = MATRIX_A, stretch = MATRIX_B, linear = MATRIX_C;
        for (const b of this.sequence) {
            const p = this.parents[b];
            copyRestLinear(bones, 12 * b, MATRIX_D);
            multiply(MATRIX_D, 0, this.#fromRest, 9 * b, linear, 0);
            polar(linear, MATRIX_E, stretch);
            copy9(MATRIX_E, 0, turn, 9 * b);
            const away = [0, 1, 2].map((i) => bones[12 * b + 4 * i + 3] - (p < 0 ? 0 : bones[12 * p + 4 * i + 3]));
            let move = away;
            if (p < 0) copy9(turn, 9 * b, local, 0);
            else {
                transposedMultiply(turn, 9 * p, turn, 9 * b, local);
                move = [0, 1, 2].map((i) => turn[9 * p + i] * away[0] + turn[9 * p + 3 + i] * away[1] + turn[9 * p + 6 + i] * away[2]);
            }
            for (let i = 0; i < 3; ++i) move[i] -= this.offset[3 * b + i];
            this.#jointMotion(b, local, move, stretch, result);
        }
        return result;
    }

    /** Fills the motion of a bone from its rotation (9), move (3) and P (9) in the axes of the rest pose. */
    #jointMotion(b: number, local: Float64Array, move: readonly number[], stretch: Float64Array, out: Float64Array): void {
        const f = 9 * b, m = CHANNELS * b, {axes} = this;
        transposedMultiply(this.turnedAxes, f, local, 0, MATRIX_E);
        multiply(MATRIX_E, 0, axes, f, MATRIX_F, 0);
        anglesFromRotation(MATRIX_F, ORDERS[this.order[b]], out, m);
        for (let i = 0; i < 3; ++i) out[m + 3 + i] = axes[f + i] * move[0] + axes[f + 3 + i] * move[1] + axes[f + 6 + i] * move[2];
        const q = stretch.slice();
        q[0] -= 1;
        q[4] -= 1;
        q[8] -= 1;
        transposedMultiply(axes, f, q, 0, MATRIX_E);
        multiply(MATRIX_E, 0, axes, f, MATRIX_F, 0);
        for (let i = 0; i < 6; ++i) out[m + 6 + i] = MATRIX_F[3 * ROW[i] + COLUMN[i]];
    }
}

/** Whether a header has a posing section. */
export function hasPosing(header: any): boolean {
    return Array.isArray(header?.['posing.dof_names']);
}

const matrix = () => new Float64Array(9);
const MATRIX_A = matrix(), MATRIX_B = matrix(), MATRIX_C = matrix(), MATRIX_D = matrix(), MATRIX_E = matrix(), MATRIX_F = matrix();
const DRIVER_X = new Float64Array(MAX_INPUTS);

function hasStretch(motion: Float64Array, at: number): boolean {
    for (let i = 6; i < 12; ++i) if (motion[at + i] !== 0) return true;
    return false;
}

function copyRestLinear(bones: ArrayLike<number>, at: number, out: Float64Array): void {
    for (let i = 0; i < 3; ++i) for (let k = 0; k < 3; ++k) out[3 * i + k] = bones[at + 4 * i + k];
}

function copy9(from: Float64Array, a: number, to: Float64Array, b: number): void {
    for (let i = 0; i < 9; ++i) to[b + i] = from[a + i];
}

/** out = A B; out must be neither. */
export function multiply(a: Float64Array, ia: number, b: Float64Array, ib: number, out: Float64Array, io: number): void {
    for (let i = 0; i < 9; i += 3)
        for (let k = 0; k < 3; ++k)
            out[io + i + k] = a[ia + i] * b[ib + k] + a[ia + i + 1] * b[ib + 3 + k] + a[ia + i + 2] * b[ib + 6 + k];
}

/** out = A B^T */
function multiplyTransposed(a: Float64Array, ia: number, b: Float64Array, ib: number, out: Float64Array, io: number): void {
    for (let i = 0; i < 9; i += 3)
        for (let k = 0; k < 3; ++k)
            out[io + i + k] = a[ia + i] * b[ib + 3 * k] + a[ia + i + 1] * b[ib + 3 * k + 1] + a[ia + i + 2] * b[ib + 3 * k + 2];
}

/** out = A^T B */
export function transposedMultiply(a: Float64Array, ia: number, b: Float64Array, ib: number, out: Float64Array): void {
    for (let i = 0; i < 3; ++i)
        for (let k = 0; k < 3; ++k)
            out[3 * i + k] = a[ia + i] * b[ib + k] + a[ia + 3 + i] * b[ib + 3 + k] + a[ia + 6 + i] * b[ib + 6 + k];
}

/** Rodrigues' formula. */
function rotationFromVector(v: Float64Array, at: number, out: Float64Array, to: number): void {
    const x = v[at], y = v[at + 1], z = v[at + 2], angle = Math.hypot(x, y, z);
    const s = angle < 1e-8 ? 1 : Math.sin(angle) / angle, c = angle < 1e-8 ? 0.5 : (1 - Math.cos(angle)) / (angle * angle);
    const values = [
        1 - c * (y * y + z * z), c * x * y - s * z, c * x * z + s * y,
        c * x * y + s * z, 1 - c * (x * x + z * z), c * y * z - s * x,
        c * x * z - s * y, c * y * z + s * x, 1 - c * (x * x + y * y),
    ];
    out.set(values, to);
}

/** out = R_i(a_i) R_j(a_j) R_k(a_k) of angles about x, y, z. */
function rotationFromAngles(angles: Float64Array, at: number, order: readonly number[], out: Float64Array): void {
    const [i, j, k] = order, sign = (j - i + 3) % 3 === 1 ? 1 : -1;
    const ca = Math.cos(angles[at + i]), sa = sign * Math.sin(angles[at + i]);
    const cb = Math.cos(angles[at + j]), sb = sign * Math.sin(angles[at + j]);
    const cc = Math.cos(angles[at + k]), sc = sign * Math.sin(angles[at + k]);
    out[3 * i + i] = cb * cc;
    out[3 * i + j] = -cb * sc;
    out[3 * i + k] = sb;
    out[3 * j + i] = ca * sc + sa * sb * cc;
    out[3 * j + j] = ca * cc - sa * sb * sc;
    out[3 * j + k] = -sa * cb;
    out[3 * k + i] = sa * sc - ca * sb * cc;
    out[3 * k + j] = sa * cc + ca * sb * sc;
    out[3 * k + k] = ca * cb;
}

/** The inverse of `rotationFromAngles`: of two sets of angles, that nearer to zero. */
function anglesFromRotation(r: Float64Array, order: readonly number[], out: Float64Array, at: number): void {
    const [i, j, k] = order, sign = (j - i + 3) % 3 === 1 ? 1 : -1;
    const level = Math.hypot(r[3 * i + i], r[3 * i + j]), locked = level < 1e-9;
    const first = locked ? Math.atan2(sign * r[3 * k + j], r[3 * j + j]) : Math.atan2(-sign * r[3 * j + k], r[3 * k + k]);
    const middle = Math.atan2(sign * r[3 * i + k], level);
    const last = locked ? 0 : Math.atan2(-sign * r[3 * i + j], r[3 * i + i]);
    const turned = (a: number) => a - (a < 0 || Object.is(a, -0) ? -Math.PI : Math.PI);
    const others = [turned(first), (middle < 0 ? -Math.PI : Math.PI) - middle, turned(last)];
    const size = (a: readonly number[]) => a[0] * a[0] + a[1] * a[1] + a[2] * a[2];
    const chosen = size(others) < size([first, middle, last]) ? others : [first, middle, last];
    out[at + i] = chosen[0];
    out[at + j] = chosen[1];
    out[at + k] = chosen[2];
}

/** A = Q P by Newton's iteration; a singular matrix gives the identity. */
function polar(a: Float64Array, q: Float64Array, p: Float64Array): void {
    copy9(a, 0, q, 0);
    for (let step = 0; step < 60; ++step) {
        const [c0, c1, c2, c3, c4, c5, c6, c7, c8] = cofactors(q);
        const d = q[0] * c0 + q[1] * c1 + q[2] * c2;
        if (!(d > 1e-12)) {  // flat or mirrored: nothing to pose
            q.set([1, 0, 0, 0, 1, 0, 0, 0, 1]);
            break;
        }
        const cofactor = [c0, c1, c2, c3, c4, c5, c6, c7, c8];
        let change = 0;
        // Scaled so that large and small matrices converge as fast.
        const size = Math.sqrt(Math.hypot(...cofactor) / d / Math.hypot(...q));
        for (let i = 0; i < 9; ++i) {
            const next = 0.5 * (size * q[i] + cofactor[i] / d / size);
            change = Math.max(change, Math.abs(next - q[i]));
            q[i] = next;
        }
        if (change < 1e-14) break;
    }
    transposedMultiply(q, 0, a, 0, p);
    for (let i = 0; i < 3; ++i)
        for (let k = 0; k < i; ++k) p[3 * i + k] = p[3 * k + i] = 0.5 * (p[3 * i + k] + p[3 * k + i]);
}

function cofactors(m: Float64Array): number[] {
    return [
        m[4] * m[8] - m[5] * m[7], m[5] * m[6] - m[3] * m[8], m[3] * m[7] - m[4] * m[6],
        m[2] * m[7] - m[1] * m[8], m[0] * m[8] - m[2] * m[6], m[1] * m[6] - m[0] * m[7],
        m[1] * m[5] - m[2] * m[4], m[2] * m[3] - m[0] * m[5], m[0] * m[4] - m[1] * m[3],
    ];
}

function invert(bones: Float64Array, at: number, out: Float64Array, to: number): void {
    copyRestLinear(bones, at, MATRIX_A);
    const c = cofactors(MATRIX_A), d = MATRIX_A[0] * c[0] + MATRIX_A[1] * c[1] + MATRIX_A[2] * c[2];
    check(Math.abs(d) > 1e-300, 'rest bones');
    for (let i = 0; i < 3; ++i) for (let k = 0; k < 3; ++k) out[to + 3 * i + k] = c[3 * k + i] / d;
}

/** All bones, parents before children; those on a cycle are left out. */
function parentsFirst(parents: Int32Array): Int32Array {
    const children: number[][] = Array.from(parents, () => []), result: number[] = [];
    parents.forEach((parent, bone) => (parent < 0 ? result : children[parent]).push(bone));
    for (let n = 0; n < result.length; ++n) result.push(...children[result[n]]);
    return Int32Array.from(result);
}

/** How many products of at most `degree` of `count` inputs there are. */
function termCount(count: number, degree: number): number {
    let result = 1;
    for (let k = 1; k <= degree; ++k) result = result * (count + k) / k;
    return result;
}

/** Every product of at most `degree` of `count` inputs: the factors of each. */
export function termsOf(count: number, degree: number): number[][] {
    const result: number[][] = [[]];
    let last: number[][] = [[]];
    for (let power = 1; power <= degree; ++power) {
        const next: number[][] = [];
        for (const term of last)
            for (let factor = term.length ? term[term.length - 1] : 0; factor < count; ++factor) next.push([...term, factor]);
        result.push(...next);
        last = next;
    }
    return result;
}

interface Reader {
    floats(name: string, length: number): Float64Array;
    index(name: string, length: number, size: number, lowest?: number): Int32Array;
}

function reader(arrays: ReadArray): Reader {
    const numbers = (name: string, length: number): Numbers => {
        const found = arrays(name);
        check(found !== null && found !== undefined && (length < 0 || found.length === length), name);
        check((found as Float64Array).every(Number.isFinite), name);
        return found as Numbers;
    };
    return {
        floats: (name, length) => Float64Array.from(numbers(name, length)),
        index: (name, length, size, lowest = 0) => {
            const found = Int32Array.from(numbers(name, length));
            check(found.every((value) => value >= lowest && value < size), name);
            return found;
        },
    };
}

function readDrivers(read: Reader, bones: number, dofs: number): Driver[] {
    const bone = read.index('posing.driver_bone', -1, bones), count = bone.length;
    const degree = read.index('posing.driver_degree', count, MAX_DEGREE + 1);
    const inputCounts = read.index('posing.driver_input_counts', count, MAX_INPUTS + 1);
    const channelCounts = read.index('posing.driver_channel_counts', count, CHANNELS + 1);
    const inputs = read.index('posing.driver_inputs', -1, dofs), channels = read.index('posing.driver_channels', -1, CHANNELS);
    const coefficients = read.floats('posing.driver_coefficients', -1);
    let i = 0, c = 0, w = 0;
    const drivers = Array.from(bone, (_, d) => {
        const n = inputCounts[d], k = channelCounts[d];
        check(termCount(n, degree[d]) <= MAX_TERMS, 'terms of a driver');
        const terms = termsOf(n, degree[d]);
        const driver = {
            bone: bone[d],
            degree: degree[d],
            inputs: inputs.slice(i, i += n),
            channels: channels.slice(c, c += k),
            coefficients: coefficients.slice(w, w += k * terms.length),
            terms,
        };
        check(i <= inputs.length && c <= channels.length && w <= coefficients.length, 'drivers');
        return driver;
    });
    check(i === inputs.length && c === channels.length && w === coefficients.length, 'drivers');
    return drivers;
}

function texts(value: any, name: string): string[] {
    check(Array.isArray(value) && value.every((text: unknown) => typeof text === 'string'), name);
    return value;
}

function check(condition: boolean, name: string): asserts condition {
    if (!condition) throw new Error(`this file's posing section is damaged: ${name}`);
}
