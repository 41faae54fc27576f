// Plays files with given drivers, for test_js.py: node play.mjs MODULE simd|portable FOLDER NAME
// ...
//
// Reads NAME.understudy and NAME.bones, NAME.controls (float64, pose after pose; missing: none). Bones
// that follow the controls are computed from these.
// Writes NAME.positions and NAME.normals (float32, pose after pose).
import {existsSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

const [module, variant, folder, ...names] = process.argv.slice(2);
const {load} = await import(pathToFileURL(module));

function doubles(path) {
    if (!existsSync(path)) return new Float64Array(0);
    const bytes = readFileSync(path);
    return new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}

for (const name of names) {
    const path = join(folder, name);
    const hero = await load(readFileSync(`${path}.understudy`), {simd: variant === 'simd'});
    const bones = doubles(`${path}.bones`), controls = doubles(`${path}.controls`);
    const poses =
        hero.boneCount ? bones.length / (12 * hero.boneCount) : controls.length / hero.controlCount;
    const size = 3 * hero.vertexCount;
    const positions = new Float32Array(poses * size), normals = new Float32Array(poses * size);
    for (let pose = 0; pose < poses; ++pose) {
        const given = bones.subarray(12 * hero.boneCount * pose, 12 * hero.boneCount * (pose + 1));
        const values = controls.length ?
            controls.subarray(hero.controlCount * pose, hero.controlCount * (pose + 1)) :
            hero.controlRest;
        const own = hero.posesBones ? hero.poseBones(values) : given;
        positions.set(hero.deform(own, values, {normals: true}), size * pose);
        normals.set(hero.normals, size * pose);
    }
    writeFileSync(`${path}.positions`, positions);
    writeFileSync(`${path}.normals`, normals);
}
