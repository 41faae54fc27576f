// Plays one deformer for `bench web`: node web_player.mjs PACKAGE simd|portable FOLDER
//
// FOLDER has hero.understudy, bones and controls (float64, pose after pose). The first line of the
// output has the instruction set; all poses are in FOLDER/positions then (float32). For every line
// of input, a number of calls, it prints the milliseconds of each call as a JSON array.
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {createInterface} from 'node:readline';
import {pathToFileURL} from 'node:url';

const [folder, variant, files] = process.argv.slice(2);
const {load} = await import(pathToFileURL(join(folder, 'understudy.js')));
const hero = await load(readFileSync(join(files, 'hero.understudy')), {simd: variant === 'simd'});

function poses(name, size) {
    const bytes = readFileSync(join(files, name));
    const all =
        new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
    return Array.from(
        {length: size ? all.length / size : 0}, (_, i) => all.subarray(size * i, size * (i + 1)));
}

const bones = poses('bones', 12 * hero.boneCount), controls = poses('controls', hero.controlCount);
const play = (i) => hero.deform(
    bones[i % bones.length], controls.length ? controls[i % controls.length] : hero.controls);

const all = new Float32Array(bones.length * hero.positions.length);
bones.forEach((_, i) => all.set(play(i), i * hero.positions.length));
writeFileSync(join(files, 'positions'), all);
console.log(hero.instructionSet);

for await (const line of createInterface({input: process.stdin})) {
    const times = [];
    for (let i = 0; i < Number(line); ++i) {
        const start = performance.now();
        play(i);
        times.push(performance.now() - start);
    }
    console.log(JSON.stringify(times));
}
