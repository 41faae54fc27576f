// node posing_checks.mjs IK_MODULE FILE MODE: runs the posing of the page on a .understudy file and
// prints JSON. IK_MODULE is web/src/ik.ts as one module. Arguments of a mode come as JSON on stdin.
import {readFileSync} from 'node:fs';
import {pathToFileURL} from 'node:url';

const [, , modulePath, path, mode, runtimePath] = process.argv;
const {posingSkeleton} = await import(pathToFileURL(modulePath));
const given = JSON.parse(readFileSync(0, 'utf8') || '{}');
const bytes = readFileSync(path), length = Number(bytes.readBigUInt64LE(0));
const table = JSON.parse(bytes.subarray(8, 8 + length).toString());
const header = JSON.parse(table.__metadata__.understudy);
const kinds = {F32: Float32Array, F64: Float64Array, I32: Int32Array};

function arrays(name) {
    const entry = table[name], Kind = entry && kinds[entry.dtype];
    if (!Kind) return null;
    const [start, end] = entry.data_offsets.map((offset) => bytes.byteOffset + 8 + length + offset);
    return new Kind(bytes.buffer.slice(start, end));
}

let seed = 1;
const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32;

/** Values of the joints anywhere within their limits; the pelvis at rest, or near it. */
function sample(skeleton, pelvis) {
    const root = skeleton.handles.find(({role}) => role === 'pelvis').bone;
    return Float64Array.from(skeleton.joints, ({bone, low, high, rest, unit}) => {
        if (bone !== root) return low + (high - low) * random();
        return rest + (pelvis ? (random() - 0.5) * (unit === 'deg' ? 30 : 0.2 * skeleton.solver.size) : 0);
    });
}

const placeOf = (bones, bone) => [3, 7, 11].map((i) => bones[12 * bone + i]);
const distance = (a, b) => Math.hypot(...a.map((x, i) => x - b[i]));

const modes = {
    /** Bones, values read from them and mirrored values, for values (T,D) of all dofs. */
    parity({model}) {
        const bones = new Float64Array(12 * model.boneCount);
        return given.values.map((row) => {
            model.pose(Float64Array.from(row), bones);
            return {bones: [...bones], read: [...model.read(bones)], mirrored: [...model.mirrored(Float64Array.from(row))]};
        });
    },

    /** Drags random handles from the rest pose to where random poses have them. */
    reach(skeleton) {
        const {handles, joints, model} = skeleton, bones = new Float64Array(12 * model.boneCount);
        const rest = Float64Array.from(joints, (joint) => joint.rest);
        const limbs = [...handles.keys()].filter((h) => handles[h].role !== 'pelvis');
        const scale = joints.map(({unit}) => unit === 'deg' ? Math.PI / 180 : 1);
        return Array.from({length: given.count}, () => {
            const handle = limbs[Math.floor(random() * limbs.length)], {bone} = handles[handle];
            skeleton.toBones(sample(skeleton, false), bones);
            const target = placeOf(bones, bone);
            const found = skeleton.drag(rest, handle, target);
            return {bone, target, values: Array.from(found, (value, j) => value * scale[j])};
        });
    },

    /** The largest distance left with targets for every limb at once and a free pelvis. */
    several(skeleton) {
        const {model, solver, handles} = skeleton, bones = new Float64Array(12 * model.boneCount);
        return Array.from({length: given.count}, () => {
            skeleton.toBones(sample(skeleton, true), bones);
            const tasks = handles.filter(({role}) => role !== 'pelvis')
                .map(({bone}) => ({bone, position: placeOf(bones, bone)}));
            return solver.solve(model.restValues, tasks, {lockRoot: false, restarts: 6}).error;
        });
    },

    /** Targets out of reach, wild and not numbers: values of every step. */
    unreachable(skeleton) {
        const {handles, joints, solver} = skeleton, steps = [];
        handles.forEach(({role}, handle) => {
            if (role === 'pelvis') return;
            let values = Float64Array.from(joints, (joint) => joint.rest);
            const run = (target, times) => {
                for (let n = 0; n < times; ++n) {
                    const next = skeleton.drag(values, handle, target);
                    steps.push({handle, target, values: [...next], change: Math.max(...next.map((v, j) => Math.abs(v - values[j])))});
                    values = next;
                }
            };
            run([9, 3, -5].map((x) => x * solver.size), 6);
            run([1e12, -1e12, 1e12], 2);
            run([NaN, 0, 0], 1);
            run([Infinity, 0, 0], 1);
            run([0, 0, 0], 4);
        });
        return steps;
    },

    /** Follows a circle with each handle: milliseconds of inverse kinematics and deformation. */
    async drag(skeleton) {
        const {load} = await import(pathToFileURL(runtimePath));
        const hero = await load(bytes), {handles, joints, model} = skeleton;
        const feet = handles.filter(({role}) => role === 'foot').map(({bone}) => bone);
        return handles.map(({name, role, bone}, handle) => {
            const start = placeOf(model.rest, bone), size = given.radius;
            let values = Float64Array.from(joints, (joint) => joint.rest), away = 0, slip = 0;
            const times = [], changes = [];
            for (let frame = 0; frame < given.frames; ++frame) {
                const a = 4 * Math.PI * frame / given.frames;
                const target = [start[0] + size * (Math.cos(a) - 1), start[1] - 0.5 * size * (1 - Math.cos(a)), start[2] + size * Math.sin(a)];
                const began = performance.now();
                const next = skeleton.drag(values, handle, target);
                skeleton.toBones(next, hero.bones);
                hero.deform(hero.bones, hero.controls, {normals: true});
                times.push(performance.now() - began);
                away = Math.max(away, distance(placeOf(hero.bones, bone), target));
                if (role !== 'foot') for (const foot of feet) slip = Math.max(slip, distance(placeOf(hero.bones, foot), placeOf(model.rest, foot)));
                if (frame) changes.push(Math.max(...next.map((v, j) => joints[j].unit === 'deg' ? Math.abs(v - values[j]) : 0)));
                values = next;
            }
            return {name, times, away, slip, change: Math.max(...changes)};
        });
    },

    /** Sections with damaged arrays and headers: how many were refused, and how many gave numbers. */
    damaged() {
        let refused = 0, read = 0;
        const names = Object.keys(table).filter((name) => name.startsWith('posing.'));
        for (let n = 0; n < given.count; ++n) {
            const about = structuredClone(header), name = names[Math.floor(random() * names.length)];
            const keys = Object.keys(about).filter((entry) => entry.startsWith('posing.')), key = keys[Math.floor(random() * keys.length)];
            const values = [null, -1, 1e9, NaN, 'x', [], {}, [[1, 1e9]], [{}], ['a', 'b']];
            const what = Math.floor(random() * 4);
            if (what === 0) about[key] = values[Math.floor(random() * values.length)];
            const broken = (asked) => {
                let array = arrays(asked);
                if (asked !== name || !array) return array;
                if (what === 1) return random() < 0.5 ? null : array.slice(0, Math.floor(random() * array.length));
                if (what > 1) array[Math.floor(random() * array.length)] = [NaN, 1e9, -7, 3, 1e300][Math.floor(random() * 5)];
                return array;
            };
            let skeleton = null;
            try {
                skeleton = posingSkeleton(broken, about);
            } catch (problem) {
                if (!/damaged/.test(problem.message)) throw problem;
            }
            if (!skeleton) {
                ++refused;
                continue;
            }
            const bones = new Float64Array(12 * skeleton.model.boneCount);
            const rest = Float64Array.from(skeleton.joints, (joint) => joint.rest);
            const moved = skeleton.handles.length ? skeleton.drag(rest, skeleton.handles.length - 1, [1, 2, 3]) : rest;
            skeleton.toBones(skeleton.mirror(moved), bones);
            ++read;
        }
        return {refused, read};
    },
};

const skeleton = mode === 'damaged' ? null : posingSkeleton(arrays, header);
console.log(JSON.stringify(await modes[mode](skeleton)));
