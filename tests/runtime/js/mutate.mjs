// Loads mutated files, for test_js.py: node mutate.mjs MODULE COUNT FILE ...
//
// Each is refused with an UnderstudyError or plays; anything else ends the program with an error.
// Prints how many were refused and how many played.
import {readFileSync} from 'node:fs';
import {pathToFileURL} from 'node:url';

const [module, count, ...files] = process.argv.slice(2);
const {load, UnderstudyError} = await import(pathToFileURL(module));

let state = 1;
function below(end) {  // xorshift: the same files in every run
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return end ? (state >>> 0) % end : 0;
}

const NUMBERS = [
    '0', '1', '2', '3', '-1', '65536', '2147483647', '2147483648', '4294967296', '9007199254740993',
    '1e308', '1.5', 'null', '"3"', '[]'
];
const WORDS = [0, 1, 0xFFFFFFFF, 0x7FC00000, 0x7F800000, 0x7F7FFFFF, 0x80000000, 0x7C007C00, 1000];

function headerEnd(file) {
    return Math.min(8 + new DataView(file.buffer).getUint32(0, true), file.length);
}

// Replaces a number of the header (a size, a shape, an offset). Updates the header's length.
function changeNumber(file) {
    const end = headerEnd(file), isDigit = (byte) => byte >= 48 && byte < 58;
    let first = 8 + below(end - 8);
    while (first < end && !isDigit(file[first])) ++first;
    let last = first;
    while (last < end && isDigit(file[last])) ++last;
    if (first === last) return file;
    const number = Buffer.from(below(2) ? NUMBERS[below(NUMBERS.length)] : String(below(300)));
    const changed =
        Uint8Array.from([...file.subarray(0, first), ...number, ...file.subarray(last)]);
    new DataView(changed.buffer).setUint32(0, end - 8 - (last - first) + number.length, true);
    return changed;
}

function mutated(seed) {
    let file = Uint8Array.from(seed);
    for (let times = 1 + below(4); times > 0 && file.length >= 16; --times) {
        const end = headerEnd(file), words = Math.floor((file.length - end) / 4);
        switch (below(6)) {
            case 0: file[below(file.length)] = below(256); break;
            case 1: file[below(end)] = below(256); break;
            case 2: file = changeNumber(file); break;
            case 3:
                if (words > 0)
                    new DataView(file.buffer)
                        .setUint32(end + 4 * below(words), WORDS[below(WORDS.length)], true);
                break;
            case 4: file[8 + below(end - 8)] ^= 1 << below(8); break;
            default:
                if (below(8) === 0) file = file.slice(0, below(file.length));
        }
    }
    return file;
}

const seeds = files.map((file) => readFileSync(file));
let refused = 0, played = 0;
for (let i = 0; i < Number(count); ++i) {
    let hero;
    try {
        hero = await load(mutated(seeds[i % seeds.length]), {simd: i % 2 === 0});
    } catch (problem) {
        if (!(problem instanceof UnderstudyError) || !problem.message) throw problem;
        ++refused;
        continue;
    }
    try {
        hero.deform(hero.bones, hero.controls, {normals: true});
        for (const clip of hero.clips) hero.deform(clip.frame(clip.frameCount - 1));
    } catch (problem) {
        if (!(problem instanceof UnderstudyError)) throw problem;
    }
    ++played;
}
console.log(`${refused} refused, ${played} played`);
