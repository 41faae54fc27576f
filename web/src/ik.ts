// Inverse kinematics of a posing skeleton, and the skeleton as the page uses it.
//
// `IkSolver` minimises the weighted distances of some bones from their targets over the dofs, within
// their limits: damped least squares (Levenberg-Marquardt) with an active set. In each step the
// Jacobian follows the chain of bones and the polynomials of helper bones; dofs at a limit that the
// step would leave are held. Where the targets leave freedom, the pose stays near a preferred one.

import {hasPosing, multiply, ORDERS, PosingModel} from './posing';
import type {Driver, HandleEntry, ReadArray} from './posing';

/** Where a bone should be. */
export interface Task {
    readonly bone: number;
    /** Of the bone's origin, in the world. */
    readonly position: readonly number[];
    /** Rotation since rest (9), row by row; absent: any. */
    readonly rotation?: Float64Array;
    /** By default 1. */
    readonly weight?: number;
    /** Weight of the rotation, relative to that of the position; by default 0.2. */
    readonly rotationWeight?: number;
}

export interface IkOptions {
    /** Whether the pelvis stays where it is; by default true. */
    readonly lockRoot?: boolean;
    /** Dofs that stay where they are. */
    readonly locked?: Uint8Array;
    /** The pose to stay near; by default the one to start with. */
    readonly prefer?: Float64Array;
    readonly iterations?: number;
    /** How many times to start from another pose if the targets are not reached; by default 0. */
    readonly restarts?: number;
    /** The largest distance that counts as reached; by default 1e-5 of the size of the skeleton. */
    readonly tolerance?: number;
}

export interface IkResult {
    readonly values: Float64Array;
    /** The largest distance of a bone from its target. */
    readonly error: number;
    readonly iterations: number;
}

const CHANNELS = 12;
const LARGEST_STEP = 0.6;  // radians
const COMFORT = 0.3;  // share of the way to the preferred pose in a step, where targets leave it free
const COMFORTABLE = 10;  // steps after which only the targets count
const ROTATION_WEIGHT = 0.2;

export class IkSolver {
    readonly model: PosingModel;
    /** The largest extent of the joints at rest. */
    readonly size: number;
    /** (D) how easily each dof moves. */
    readonly mobility: Float64Array;
    readonly #channelDof: Int32Array;
    readonly #driversOf: Driver[][];
    readonly #isRoot: Uint8Array;
    // Scratch of all bones.
    readonly #motion: Float64Array;
    readonly #turn: Float64Array;
    readonly #place: Float64Array;
    readonly #axis: Float64Array;
    readonly #x = new Float64Array(16);
    readonly #slopes = new Map<Driver, Float64Array>();

    constructor(model: PosingModel) {
        this.model = model;
        const {boneCount: bones, dofCount: dofs} = model;
        this.size = sizeOf(model);
        this.#channelDof = new Int32Array(CHANNELS * bones).fill(-1);
        for (let j = 0; j < dofs; ++j)
            if (model.dofBone[j] >= 0) this.#channelDof[CHANNELS * model.dofBone[j] + model.dofChannel[j]] = j;
        this.#driversOf = Array.from({length: bones}, () => []);
        for (const driver of model.drivers) {
            this.#driversOf[driver.bone].push(driver);
            this.#slopes.set(driver, new Float64Array(driver.channels.length * driver.inputs.length));
        }
        this.#isRoot = rootDofs(model);
        this.mobility = mobilities(model, this.size, this.#isRoot);
        this.#motion = new Float64Array(CHANNELS * bones);
        this.#turn = new Float64Array(9 * bones);
        this.#place = new Float64Array(3 * bones);
        this.#axis = new Float64Array(18 * bones);
    }

    /** Returns values within the limits that bring bones to their targets, or as near as they get. */
    solve(start: Float64Array, tasks: readonly Task[], options: IkOptions = {}): IkResult {
        const tolerance = options.tolerance ?? 1e-5 * this.size;
        const problem = this.#problem(tasks, options);
        let best = this.#descend(start, problem, options, tolerance);
        let iterations = best.iterations;
        for (let attempt = 1; attempt <= (options.restarts ?? 0) && best.error > tolerance; ++attempt) {
            const next = this.#descend(this.#otherStart(start, problem, attempt), problem, options, tolerance);
            iterations += next.iterations;
            if (next.error < best.error) best = next;
        }
        return {values: best.values, error: best.error, iterations};
    }

    /** Fills place (3) and rotation since rest (9) of one bone. */
    locate(values: Float64Array, bone: number, place: Float64Array, rotation?: Float64Array): void {
        const chain: number[] = [];
        for (let b = bone; b >= 0; b = this.model.parents[b]) chain.push(b);
        this.#forward(values, chain.reverse());
        place.set(this.#place.subarray(3 * bone, 3 * bone + 3));
        rotation?.set(this.#turn.subarray(9 * bone, 9 * bone + 9));
    }

    #problem(tasks: readonly Task[], options: IkOptions): Problem {
        const {model} = this, inside = new Uint8Array(model.boneCount), free: number[] = [];
        for (const {bone} of tasks) for (let b = bone; b >= 0 && !inside[b]; b = model.parents[b]) inside[b] = 1;
        const bones = Array.from(model.sequence).filter((b) => inside[b]);
        const used = new Uint8Array(model.dofCount);
        for (const b of bones) {
            for (let c = 0; c < 6; ++c) {
                const dof = this.#channelDof[CHANNELS * b + c];
                if (dof >= 0) used[dof] = 1;
            }
            for (const driver of this.#driversOf[b])
                if (driver.channels.some((channel) => channel < 6)) for (const dof of driver.inputs) used[dof] = 1;
        }
        for (let j = 0; j < model.dofCount; ++j) {
            const held = (model.dofBone[j] < 0 && !model.fromControls) || options.locked?.[j] || ((options.lockRoot ?? true) && this.#isRoot[j]);
            if (used[j] && !held) free.push(j);
        }
        const column = new Int32Array(model.dofCount).fill(-1);
        free.forEach((dof, n) => column[dof] = n);
        const rows = tasks.reduce((sum, task) => sum + (task.rotation ? 6 : 3), 0);
        return {
            tasks, bones, column, rows,
            free: Int32Array.from(free),
            jacobian: new Float64Array(rows * free.length),
            residual: new Float64Array(rows),
        };
    }

    #descend(start: Float64Array, problem: Problem, options: IkOptions, tolerance: number): IkResult {
        const {model} = this, {free, rows, jacobian, residual} = problem, count = free.length;
        const prefer = options.prefer ?? start, most = options.iterations ?? 60;
        let values: Float64Array = model.limit(start.slice()), trial: Float64Array = values.slice();
        let cost = this.#residual(values, problem), damping = 1e-3, stalled = 0, iterations = 0;
        const step = new Float64Array(count), active = new Uint8Array(count), system = new Float64Array(rows * rows);
        const wish = new Float64Array(count), right = new Float64Array(rows), back = new Float64Array(rows);
        while (iterations < most && count && problem.error! > tolerance && stalled < 6) {
            ++iterations;
            this.#jacobian(values, problem);
            const scale = this.size * this.size;
            const comfort = iterations > COMFORTABLE ? 0 : COMFORT;
            for (let n = 0; n < count; ++n) wish[n] = comfort * (prefer[free[n]] - values[free[n]]);
            active.fill(0);
            let accepted = false;
            for (let tries = 0; tries < 8 && !accepted; ++tries) {
                // Dofs at a limit that the step would leave are held, and the step is solved again.
                for (let again = 0; again < 8; ++again) {
                    this.#normal(problem, active, system);
                    for (let r = 0; r < rows; ++r) system[r * rows + r] += damping * scale;
                    if (!factor(system, rows)) break;
                    for (let r = 0; r < rows; ++r) {
                        let sum = 0;
                        for (let n = 0; n < count; ++n) if (!active[n]) sum += jacobian[r * count + n] * wish[n];
                        right[r] = residual[r] - sum;
                    }
                    solveFactored(system, rows, right, back);
                    let held = false;
                    for (let n = 0; n < count; ++n) {
                        if (active[n]) {
                            step[n] = 0;
                            continue;
                        }
                        let sum = 0;
                        for (let r = 0; r < rows; ++r) sum += jacobian[r * count + n] * back[r];
                        step[n] = wish[n] + this.mobility[free[n]] * sum;
                        const j = free[n];
                        if ((values[j] <= model.low[j] && step[n] < 0) || (values[j] >= model.high[j] && step[n] > 0)) {
                            active[n] = 1;
                            held = true;
                        }
                    }
                    if (!held) break;
                }
                for (let n = 0; n < count; ++n) if (active[n]) step[n] = 0;
                let longest = 0;
                for (let n = 0; n < count; ++n) {
                    const j = free[n];  // a control counts as a share of its range
                    if (model.fromControls) longest = Math.max(longest, Math.abs(step[n]) / model.half[j]);
                    else if (model.dofChannel[j] < 3) longest = Math.max(longest, Math.abs(step[n]));
                }
                const share = longest > LARGEST_STEP ? LARGEST_STEP / longest : 1;
                trial.set(values);
                for (let n = 0; n < count; ++n) trial[free[n]] += share * step[n];
                model.limit(trial);
                const now = this.#residual(trial, problem);
                if (now < cost) {
                    stalled = now > 0.999 * cost ? stalled + 1 : 0;
                    [values, trial, cost, accepted] = [trial, values, now, true];
                    damping = Math.max(1e-9, damping * 0.2);
                } else {
                    damping = Math.min(1e3, damping * 6);
                    wish.fill(0);
                }
            }
            if (!accepted) {
                cost = this.#residual(values, problem);
                break;
            }
        }
        return {values, error: problem.error!, iterations};
    }

    /** Another pose to start from: the dofs of the chain anywhere within their limits. */
    #otherStart(start: Float64Array, {free}: Problem, attempt: number): Float64Array {
        const {low, high} = this.model, values = start.slice();
        let seed = (attempt * 2654435761) >>> 0;
        for (const j of free) {
            seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
            if (!this.#isRoot[j]) values[j] = low[j] + (high[j] - low[j]) * (0.15 + 0.7 * (seed / 2 ** 32));
        }
        return values;
    }

    /** Rotations and places of some bones, parents first. */
    #forward(values: Float64Array, bones: readonly number[]): void {
        const {model} = this, motion = this.#motion, turn = this.#turn, local = LOCAL;
        for (const b of bones) {
            const p = model.parents[b];
            motion.fill(0, CHANNELS * b, CHANNELS * b + CHANNELS);
            for (const driver of this.#driversOf[b]) model.drive(driver, values, motion);
            for (let c = 0; c < CHANNELS; ++c) {
                const dof = this.#channelDof[CHANNELS * b + c];
                if (dof >= 0) motion[CHANNELS * b + c] = values[dof];
            }
            model.localRotation(b, motion, local);
            if (p < 0) turn.set(local, 9 * b);
            else multiply(turn, 9 * p, local, 0, turn, 9 * b);
            model.placeOf(b, motion, turn, this.#place);
        }
    }

    /** Fills the weighted residual; returns half its square, and leaves the largest distance. */
    #residual(values: Float64Array, problem: Problem): number {
        this.#forward(values, problem.bones);
        const {tasks, residual} = problem, place = this.#place;
        let row = 0, cost = 0, error = 0;
        for (const task of tasks) {
            const {bone, position, rotation} = task, weight = task.weight ?? 1;
            let square = 0;
            for (let i = 0; i < 3; ++i) {
                const away = position[i] - place[3 * bone + i];
                square += away * away;
                residual[row++] = weight * away;
            }
            error = Math.max(error, Math.sqrt(square));
            if (rotation) {
                // The rotation vector of Q_target Q^T for small angles; its direction is right for all.
                const lever = weight * (task.rotationWeight ?? ROTATION_WEIGHT) * 0.2 * this.size, q = this.#turn, b = 9 * bone;
                for (let i = 0; i < 3; ++i) {
                    const y = (i + 1) % 3, z = (i + 2) % 3;
                    let sum = 0;  // columns of Q x columns of the target, added up
                    for (let k = 0; k < 3; ++k)
                        sum += q[b + 3 * y + k] * rotation[3 * z + k] - q[b + 3 * z + k] * rotation[3 * y + k];
                    residual[row++] = 0.5 * lever * sum;
                }
            }
        }
        for (let r = 0; r < row; ++r) cost += residual[r] * residual[r];
        problem.error = error;
        return 0.5 * cost;
    }

    /** Fills the weighted Jacobian (rows, free) at the values of the last `#residual`. */
    #jacobian(values: Float64Array, problem: Problem): void {
        const {model} = this, {tasks, bones, column, jacobian, free} = problem, count = free.length;
        // `#residual` may have been called for a trial since.
        this.#residual(values, problem);
        for (const b of bones) {
            this.#jointAxes(b);
            for (const driver of this.#driversOf[b]) this.#slopesOf(driver, values);
        }
        jacobian.fill(0);
        const axis = this.#axis, place = this.#place;
        let row = 0;
        for (const task of tasks) {
            const weight = task.weight ?? 1, px = place[3 * task.bone], py = place[3 * task.bone + 1], pz = place[3 * task.bone + 2];
            const lever = weight * (task.rotationWeight ?? ROTATION_WEIGHT) * 0.2 * this.size, turns = !!task.rotation;
            const add = (n: number, share: number, a: number, linear: boolean, b: number) => {
                if (n < 0) return;
                const ax = axis[a], ay = axis[a + 1], az = axis[a + 2], at = row * count + n;
                if (!linear) {
                    jacobian[at] += weight * share * ax;
                    jacobian[at + count] += weight * share * ay;
                    jacobian[at + 2 * count] += weight * share * az;
                    return;
                }
                const dx = px - place[3 * b], dy = py - place[3 * b + 1], dz = pz - place[3 * b + 2];
                jacobian[at] += weight * share * (ay * dz - az * dy);
                jacobian[at + count] += weight * share * (az * dx - ax * dz);
                jacobian[at + 2 * count] += weight * share * (ax * dy - ay * dx);
                if (turns) {
                    jacobian[at + 3 * count] += lever * share * ax;
                    jacobian[at + 4 * count] += lever * share * ay;
                    jacobian[at + 5 * count] += lever * share * az;
                }
            };
            for (let b = task.bone; b >= 0; b = model.parents[b]) {
                for (let c = 0; c < 6; ++c) {
                    const dof = this.#channelDof[CHANNELS * b + c];
                    if (dof >= 0) add(column[dof], 1, 18 * b + 3 * c, c < 3, b);
                }
                for (const driver of this.#driversOf[b]) {
                    const slopes = this.#slopes.get(driver)!, inputs = driver.inputs.length;
                    for (let k = 0; k < driver.channels.length; ++k) {
                        const c = driver.channels[k];
                        if (c >= 6) continue;
                        for (let i = 0; i < inputs; ++i)
                            add(column[driver.inputs[i]], slopes[k * inputs + i], 18 * b + 3 * c, c < 3, b);
                    }
                }
            }
            row += turns ? 6 : 3;
        }
    }

    /** The directions in the world in which the six first channels of a bone turn and move it. */
    #jointAxes(b: number): void {
        const {model} = this, axis = this.#axis, p = model.parents[b], at = CHANNELS * b, [i, j, k] = ORDERS[model.order[b]];
        const turned = FRAME, plain = PLAIN;
        if (p < 0) {
            for (let n = 0; n < 9; ++n) {
                turned[n] = model.turnedAxes[9 * b + n];
                plain[n] = model.axes[9 * b + n];
            }
        } else {
            multiply(this.#turn, 9 * p, model.turnedAxes, 9 * b, turned, 0);
            multiply(this.#turn, 9 * p, model.axes, 9 * b, plain, 0);
        }
        // R_i(a) e_j and R_i(a) R_j(b) e_k, in the axes of the joint.
        const sign = (j - i + 3) % 3 === 1 ? 1 : -1, a = this.#motion[at + i], m = this.#motion[at + j];
        const ca = Math.cos(a), sa = sign * Math.sin(a), cb = Math.cos(m), sb = sign * Math.sin(m);
        for (let row = 0; row < 3; ++row) {
            const x = turned[3 * row + i], y = turned[3 * row + j], z = turned[3 * row + k];
            axis[18 * b + 3 * i + row] = x;
            axis[18 * b + 3 * j + row] = ca * y + sa * z;
            axis[18 * b + 3 * k + row] = sb * x - sa * cb * y + ca * cb * z;
            for (let c = 0; c < 3; ++c) axis[18 * b + 9 + 3 * c + row] = plain[3 * row + c];
        }
    }

    /** The derivatives (channels, inputs) of a driver. */
    #slopesOf(driver: Driver, values: Float64Array): void {
        const {inputs, channels, coefficients, terms, degree} = driver, {model} = this, x = this.#x;
        const slopes = this.#slopes.get(driver)!.fill(0), count = channels.length, n = inputs.length;
        model.inputsOf(inputs, degree, values, x);
        for (let t = 1; t < terms.length; ++t) {
            const factors = terms[t];
            for (let f = 0; f < factors.length; ++f) {
                let product = 1 / model.half[inputs[factors[f]]];
                for (let g = 0; g < factors.length; ++g) if (g !== f) product *= x[factors[g]];
                for (let k = 0; k < count; ++k) slopes[k * n + factors[f]] += product * coefficients[t * count + k];
            }
        }
    }

    /** Fills J W J^T (rows, rows) of the dofs that are not held. */
    #normal({rows, free, jacobian}: Problem, active: Uint8Array, out: Float64Array): void {
        const count = free.length;
        for (let r = 0; r < rows; ++r)
            for (let s = 0; s <= r; ++s) {
                let sum = 0;
                for (let n = 0; n < count; ++n)
                    if (!active[n]) sum += jacobian[r * count + n] * this.mobility[free[n]] * jacobian[s * count + n];
                out[r * rows + s] = out[s * rows + r] = sum;
            }
    }
}

interface Problem {
    readonly tasks: readonly Task[];
    /** The bones between roots and targets, parents first. */
    readonly bones: readonly number[];
    /** The dofs to change. */
    readonly free: Int32Array;
    /** (D) index into `free`, or -1. */
    readonly column: Int32Array;
    readonly rows: number;
    readonly jacobian: Float64Array;
    readonly residual: Float64Array;
    /** The largest distance at the last residual. */
    error?: number;
}

const LOCAL = new Float64Array(9), FRAME = new Float64Array(9), PLAIN = new Float64Array(9);

/** Cholesky's factor in the lower triangle; false: not positive definite. */
function factor(a: Float64Array, n: number): boolean {
    for (let i = 0; i < n; ++i)
        for (let j = 0; j <= i; ++j) {
            let sum = a[i * n + j];
            for (let k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
            if (i === j) {
                if (!(sum > 0)) return false;
                a[i * n + i] = Math.sqrt(sum);
            } else a[i * n + j] = sum / a[j * n + j];
        }
    return true;
}

function solveFactored(a: Float64Array, n: number, right: Float64Array, out: Float64Array): void {
    for (let i = 0; i < n; ++i) {
        let sum = right[i];
        for (let k = 0; k < i; ++k) sum -= a[i * n + k] * out[k];
        out[i] = sum / a[i * n + i];
    }
    for (let i = n - 1; i >= 0; --i) {
        let sum = out[i];
        for (let k = i + 1; k < n; ++k) sum -= a[k * n + i] * out[k];
        out[i] = sum / a[i * n + i];
    }
}

function sizeOf({boneCount, rest}: PosingModel): number {
    let size = 0;
    for (let i = 0; i < 3; ++i) {
        let low = Infinity, high = -Infinity;
        for (let b = 0; b < boneCount; ++b) {
            low = Math.min(low, rest[12 * b + 4 * i + 3]);
            high = Math.max(high, rest[12 * b + 4 * i + 3]);
        }
        size = Math.max(size, high - low);
    }
    return size || 1;
}

/** Which dofs move the whole body: those of the pelvis and of the bones above it. */
function rootDofs(model: PosingModel): Uint8Array {
    const above = new Uint8Array(model.boneCount);
    for (const {role, bone} of model.handles)
        if (role === 'pelvis') for (let b = bone; b >= 0; b = model.parents[b]) above[b] = 1;
    const result = Uint8Array.from(model.dofBone, (bone) => bone >= 0 ? above[bone] : 0);
    if (model.fromControls)
        for (const {bone, inputs} of model.drivers) if (above[bone]) for (const dof of inputs) result[dof] = 1;
    return result;
}

/** How easily each dof moves: limbs before the trunk, turning before stretching. */
function mobilities(model: PosingModel, size: number, isRoot: Uint8Array): Float64Array {
    const passing = new Int32Array(model.boneCount);
    for (const {role, bone} of model.handles)
        if (role !== 'pelvis') for (let b = bone; b >= 0; b = model.parents[b]) ++passing[b];
    return Float64Array.from(model.dofBone, (bone, j) => {
        if (bone < 0) return model.fromControls ? model.half[j] ** 2 * (isRoot[j] ? 0.1 : 1) : 0;
        const channel = model.dofChannel[j];
        if (isRoot[j]) return channel < 3 ? 0.1 : 0.02 * size * size;
        const share = passing[bone] > 1 ? 0.25 : 1;
        return channel < 3 ? share : channel < 6 ? 0.005 * size * size : 0.02;
    });
}

// The skeleton as the page uses it.

/** One degree of freedom: one slider. Angles are in degrees. */
export interface Joint {
    readonly name: string;
    readonly bone: number;
    /** The part of the body: "left arm". */
    readonly part: string;
    /** "deg", the unit of length, or "" for a stretch. */
    readonly unit: string;
    readonly low: number;
    readonly high: number;
    readonly rest: number;
}

export type Handle = HandleEntry;

export interface DragOptions {
    /** Handles that stay where they are; by default the feet. */
    readonly pins?: readonly number[];
    /** Whether the pelvis may follow; by default where feet are pinned, or if it is dragged. */
    readonly freeRoot?: boolean;
}

/** What poses a character without its rig. Values have one number per joint. */
export interface PosingSkeleton {
    readonly joints: readonly Joint[];
    readonly handles: readonly Handle[];
    readonly parts: readonly string[];
    /** Of the vertices, because of helper bones, in model units. */
    readonly error: {readonly mean: number; readonly largest: number};
    /** What could not be found, in words. */
    readonly notes: readonly string[];
    /** Whether `mirror` does anything. */
    readonly symmetric: boolean;
    readonly model: PosingModel;
    readonly solver: IkSolver;
    /** Sets the controls (C) that some bones may follow. */
    setControls(controls: ArrayLike<number>): void;
    /** Values of all joints that reproduce `bones` best, within limits. */
    fromBones(bones: Float64Array): Float64Array;
    /** Writes `world_from_bone` of all bones. */
    toBones(values: Float64Array, out: Float64Array): void;
    /** Values after the bone of a handle is dragged to `target` (x, y, z), within limits. */
    drag(values: Float64Array, handle: number, target: readonly number[], options?: DragOptions): Float64Array;
    /** Left and right exchanged. */
    mirror(values: Float64Array): Float64Array;
}

/**
 * Returns the skeleton of an opened .understudy file, or null: it has none.
 *
 * @throws Error if the section is damaged
 */
export function posingSkeleton(arrays: ReadArray, header: any): PosingSkeleton|null {
    return hasPosing(header) ? new Posing(new PosingModel(arrays, header)) : null;
}

interface Drag {
    readonly handle: number;
    readonly start: Float64Array;
    readonly pins: readonly Task[];
    readonly freeRoot: boolean;
    last: Float64Array;
    target: readonly number[];
}

class Posing implements PosingSkeleton {
    readonly joints: readonly Joint[];
    readonly solver: IkSolver;
    readonly #dofs: number[];  // the dof of each joint
    readonly #scale: number[];  // radians or units per unit of a joint
    readonly #all: Float64Array;
    #drag: Drag|null = null;

    constructor(readonly model: PosingModel) {
        this.solver = new IkSolver(model);
        this.#all = model.restValues.slice();
        this.#dofs = Array.from(model.dofBone.keys()).filter((j) => model.fromControls || model.dofBone[j] >= 0);
        this.#scale = this.#dofs.map((j) => !model.fromControls && model.dofChannel[j] < 3 ? Math.PI / 180 : 1);
        // A control belongs to the part of the first bone that it moves.
        const bones = this.#dofs.map((j) => model.fromControls ?
            model.sequence.find((b) => model.drivers.some(({bone, inputs}) => bone === b && inputs.includes(j))) ?? 0 :
            model.dofBone[j]);
        const unitOf = (j: number) => model.fromControls ? model.controlUnits[model.dofChannel[j]] ?? '' :
            model.dofChannel[j] < 3 ? 'deg' : model.dofChannel[j] < 6 ? model.unit : '';
        this.joints = this.#dofs.map((j, n) => ({
            name: model.dofNames[j],
            bone: bones[n],
            part: model.parts[model.bonePart[bones[n]]],
            unit: unitOf(j),
            low: model.low[j] / this.#scale[n],
            high: model.high[j] / this.#scale[n],
            rest: model.restValues[j] / this.#scale[n],
        }));
    }

    get handles(): readonly Handle[] {
        return this.model.handles;
    }

    get parts(): readonly string[] {
        return this.model.parts;
    }

    get notes(): readonly string[] {
        return this.model.notes;
    }

    get symmetric(): boolean {
        return this.model.mirrorAxis >= 0;
    }

    get error(): {mean: number; largest: number} {
        return {mean: this.model.errors.mean, largest: this.model.errors.max};
    }

    setControls(controls: ArrayLike<number>): void {
        const {dofBone, dofChannel, restValues} = this.model;
        for (let j = 0; j < dofBone.length; ++j)
            if (dofBone[j] < 0) this.#all[j] = controls[dofChannel[j]] ?? restValues[j];
    }

    fromBones(bones: Float64Array): Float64Array {
        // Controls are not read from bones: they are those that were set.
        if (this.model.fromControls) return this.#joints(this.model.limit(this.#all.slice()));
        return this.#joints(this.model.limit(this.model.read(bones)));
    }

    toBones(values: Float64Array, out: Float64Array): void {
        this.model.pose(this.#values(values), out);
    }

    mirror(values: Float64Array): Float64Array {
        return this.#joints(this.model.mirrored(this.#values(values)));
    }

    drag(values: Float64Array, handle: number, target: readonly number[], options: DragOptions = {}): Float64Array {
        if (!target.every(Number.isFinite)) return values.slice();
        const {solver, model} = this, all = this.#values(values);
        let drag = this.#drag;
        // A drag goes on where the last call ended; its pins and preferred pose are those of its start.
        const goesOn = drag && drag.handle === handle && drag.last.length === values.length &&
            drag.last.every((value, n) => value === values[n]);
        if (!goesOn || !drag) drag = this.#drag = this.#begin(all, handle, options);
        const {bone, role} = model.handles[handle];
        const position = this.#within(all, handle, target);
        const tasks: Task[] = [{bone, position}, ...drag.pins];
        // A target that jumps may be behind a limit; one that moves is followed.
        const far = drag.target.length === 0 || distance(drag.target, position) > 0.03 * solver.size;
        drag.target = position;
        const found = solver.solve(all, tasks, {
            lockRoot: !drag.freeRoot && role !== 'pelvis',
            prefer: drag.start,
            iterations: far ? 60 : 24,
            tolerance: 2e-5 * solver.size,
            restarts: far ? 6 : 0,
        });
        drag.last = this.#joints(found.values);
        return drag.last.slice();
    }

    /** A target no farther from the pelvis than the limb is long, and some. */
    #within(all: Float64Array, handle: number, target: readonly number[]): number[] {
        const {handles, parents, offset} = this.model, pelvis = handles.find(({role}) => role === 'pelvis')?.bone ?? -1;
        let length = 0, b = handles[handle].bone;
        for (; b >= 0 && b !== pelvis; b = parents[b]) length += Math.hypot(offset[3 * b], offset[3 * b + 1], offset[3 * b + 2]);
        if (b < 0 || !length) return target.slice();
        const centre = new Float64Array(3);
        this.solver.locate(all, pelvis, centre);
        const away = distance(target, Array.from(centre)), share = Math.min(1, 1.5 * length / (away || 1));
        return Array.from(centre, (c, i) => c + share * (target[i] - c));
    }

    #begin(all: Float64Array, handle: number, options: DragOptions): Drag {
        const {handles} = this.model, dragged = handles[handle];
        const feet = handles.flatMap(({role}, n) => role === 'foot' ? [n] : []);
        const pinned = (options.pins ?? (dragged.role === 'foot' ? [] : feet)).filter((n) => n !== handle);
        const pins = pinned.map((n) => {
            const place = new Float64Array(3), rotation = new Float64Array(9), {bone} = handles[n];
            this.solver.locate(all, bone, place, rotation);
            return {bone, position: Array.from(place), rotation, weight: 2};
        });
        const freeRoot = options.freeRoot ?? (dragged.role === 'pelvis' || pins.length > 0);
        return {handle, start: all.slice(), pins, freeRoot, last: new Float64Array(0), target: []};
    }

    /** All dofs in radians from the values of the joints. */
    #values(values: Float64Array): Float64Array {
        const all = this.#all.slice();
        this.#dofs.forEach((dof, n) => all[dof] = values[n] * this.#scale[n]);
        return this.model.limit(all);
    }

    #joints(all: Float64Array): Float64Array {
        return Float64Array.from(this.#dofs, (dof, n) => all[dof] / this.#scale[n]);
    }
}

function distance(a: readonly number[], b: readonly number[]): number {
    return Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}
