// Builds the script of the page into src/understudy/viewer/page (or the folder given), beside its
// template and styles. The same sources give the same bytes. Python puts the WebAssembly modules of
// js/ into each page.

import {createHash} from 'node:crypto';
import {mkdirSync, readdirSync, readFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {build} from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, '..', 'src', 'understudy', 'viewer', 'page');

/** Files that the script is made of, relative to the repository, in order. */
function sources() {
    const own = readdirSync(join(here, 'src')).map((name) => `web/src/${name}`);
    const others = ['web/build.mjs', 'web/package-lock.json', 'web/tsconfig.json',
                    'js/understudy.js'];
    return [...own, ...others].sort();
}

function fingerprint() {
    const digest = createHash('sha256');
    for (const path of sources()) {
        digest.update(path + '\0');
        digest.update(readFileSync(join(here, '..', path)));
    }
    return digest.digest('hex');
}

mkdirSync(out, {recursive: true});
await build({
    entryPoints: {viewer: join(here, 'src', 'main.ts')},
    absWorkingDir: here,
    outdir: out,
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    charset: 'ascii',
    legalComments: 'none',
    external: ['node:fs/promises'],
    banner: {js: '/* Understudy viewer. Contains three.js (MIT), https://threejs.org/license\n' +
                 `   Built from sources ${fingerprint()} */`},
});
