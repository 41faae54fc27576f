// Plays mutated files, for test_mutated_files.py:
//
//     node play_mutated.mjs MODULE simd|portable FILE ...
//
// Prints a line for each: "played", "stopped" if the drivers are refused, or "refused" and what is
// wrong; writes the vertices of two poses to FILE.simd or FILE.portable. An error of another kind
// ends the program. The last line is the most memory that it used, in MB.
import {readFileSync, writeFileSync} from 'node:fs';
import {pathToFileURL} from 'node:url';

const [module, variant, ...files] = process.argv.slice(2);
const {load, UnderstudyError} = await import(pathToFileURL(module));

// The drivers of runtime/tests/sample.h.
function drivers(hero, pose) {
    return {
        bones: hero.restBones.map((value, i) => value + 0.1 * Math.sin(1 + 7 * i + 3 * pose)),
        controls: hero.controls.map((_, i) => Math.sin(2 * i + pose)),
    };
}

// What `act` returns, or the message of its UnderstudyError.
async function attempt(act) {
    try {
        return {value: await act()};
    } catch (problem) {
        if (!(problem instanceof UnderstudyError) || !problem.message) throw problem;
        return {problem: problem.message};
    }
}

for (const file of files) {
    const {value: hero, problem} =
        await attempt(() => load(readFileSync(file), {simd: variant === 'simd'}));
    if (problem) {
        console.log(`refused ${problem}`);
        continue;
    }
    const positions = new Float32Array(2 * 3 * hero.vertexCount);
    const {problem: stopped} = await attempt(() => {
        for (let pose = 0; pose < 2; ++pose) {
            const {bones, controls} = drivers(hero, pose);
            const own = hero.posesBones ? hero.poseBones(controls) : bones;
            positions.set(hero.deform(own, controls), 3 * hero.vertexCount * pose);
        }
    });
    console.log(stopped ? 'stopped' : 'played');
    writeFileSync(`${file}.${variant}`, positions);
}
console.log(Math.round(process.resourceUsage().maxRSS / 1024));
