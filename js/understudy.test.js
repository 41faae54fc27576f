// Run by `node --test` with the environment variable UNDERSTUDY_FILES: a folder of deformers. Each
// FILE.understudy may have FILE.json beside it: {poses, bones, controls, positions}.
import assert from 'node:assert/strict';
import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'node:test';
import {load, simd, supported, UnderstudyError} from './understudy.js';

const folder = process.env.UNDERSTUDY_FILES ?? '.';
const names = readdirSync(folder).filter((name) => name.endsWith('.understudy'));
const bytesOf = (name) => readFileSync(join(folder, name));
const modules = simd ? [true, false] : [false];

test('there are files', () => assert.ok(names.length > 0));

test('the engine is supported', () => assert.ok(supported));

for (const name of names)
    for (const use of modules)
        test(`${name}, ${use ? 'SIMD' : 'portable'}`, async () => {
            const hero = await load(bytesOf(name), {simd: use});
            assert.equal(hero.instructionSet, use ? 'simd128' : 'portable');
            assert.equal(hero.boneNames.length, hero.boneCount);
            assert.ok(hero.boneNames.every((bone) => bone.length > 0));
            assert.ok(hero.boneParents.every((parent, bone) => parent >= -1 && parent < bone));
            assert.equal(hero.controlLow.length, hero.controlCount);
            assert.ok(hero.controlLow.every((low, i) => low <= hero.controlHigh[i]));
            assert.ok(hero.triangles.every((vertex) => vertex < hero.vertexCount));
            assert.deepEqual(hero.bones, hero.restBones);

            const positions = hero.deform(hero.bones, hero.controls, {normals: true});
            assert.equal(positions, hero.positions);
            assert.equal(positions.length, 3 * hero.vertexCount);
            assert.ok(positions.every(Number.isFinite));
            for (let i = 0; i < hero.normals.length; i += 3) {
                const length = Math.hypot(...hero.normals.subarray(i, i + 3));
                assert.ok(length === 0 || Math.abs(length - 1) < 1e-4);
            }

            const coefficients = hero.computeCoefficients();
            assert.equal(coefficients, hero.coefficients);
            assert.ok(coefficients.every(Number.isFinite));

            const distance = hero.distanceFromData();
            assert.ok(hero.isBounded ? distance >= 0 : distance === 0);
            assert.equal(hero.isBounded, name.includes('bounded'));

            // Arrays of other types and other memory give the same.
            const before = positions.slice();
            hero.deform(Array.from(hero.bones), new Float64Array(hero.controls));
            assert.deepEqual(hero.positions, before);
            const matrices = new Float64Array(16 * hero.boneCount);
            for (let bone = 0; bone < hero.boneCount; ++bone)
                for (let i = 0; i < 12; ++i)
                    matrices[16 * bone + (i % 4) * 4 + Math.floor(i / 4)] =
                        hero.restBones[12 * bone + i];
            hero.bones.fill(7);
            hero.setBoneMatrices(matrices);
            assert.deepEqual(hero.bones, hero.restBones);

            for (const clip of hero.clips) {
                assert.ok(clip.frameCount >= 1 && clip.name.length > 0);
                assert.ok(hero.deform(clip.frame(clip.frameCount - 1)).every(Number.isFinite));
                assert.throws(() => clip.frame(clip.frameCount), UnderstudyError);
                assert.throws(() => clip.frame(-1), UnderstudyError);
            }
        });

test('wrong arguments are exceptions', async () => {
    const name = names.find((candidate) => candidate.startsWith('full'));
    const hero = await load(bytesOf(name));
    assert.throws(
        () => hero.deform([1, 2, 3]),
        {name: 'UnderstudyError', message: /^bones: expected \d+ numbers, got 3/});
    assert.throws(
        () => hero.deform(hero.bones, [NaN].concat(Array(hero.controlCount - 1).fill(0))), /NaN/);
    assert.throws(() => hero.setBoneMatrices([]), UnderstudyError);
    assert.ok(
        hero.deform(hero.restBones, hero.controlRest).every(Number.isFinite));  // it still works
});

test('bytes that are no deformer are refused', async () => {
    const good = bytesOf(names[0]);
    for (const bytes
             of [new Uint8Array(0), new Uint8Array(100), good.subarray(0, good.length / 2),
                 new ArrayBuffer(9)])
        await assert.rejects(load(bytes), UnderstudyError);
    await assert.rejects(load('hero.understudy'), UnderstudyError);
    await assert.rejects(load(undefined), UnderstudyError);
});

test('a module may be given', async () => {
    const bytes = readFileSync(new URL('./understudy.wasm', import.meta.url));
    for (const wasm of [bytes, await WebAssembly.compile(bytes)])
        assert.equal((await load(bytesOf(names[0]), {wasm})).instructionSet, 'portable');
});
