// Starts the page: finds the scene, in the page itself or at the server, and shows it. The runtime is
// in the page, as src/understudy/viewer/page.py wrote it.

import {simd} from '../../js/understudy.js';
import {App} from './app';
import {SceneError} from './container';
import {el} from './dom';
import {readScene} from './scene';

/** Bytes that are inside the page, or null. */
async function embedded(name: string): Promise<Uint8Array<ArrayBuffer>|null> {
    const place = document.getElementById(name);
    if (!place) return null;
    const text = place.textContent!.trim();
    place.remove();  // its memory is not needed twice
    try {
        const stream = new Blob([fromBase64(text)]).stream().pipeThrough(new DecompressionStream('gzip'));
        return new Uint8Array(await new Response(stream).arrayBuffer());
    } catch {
        throw damaged();
    }
}

const damaged = () => new SceneError('The page is damaged or incomplete. Download it again, or write it anew with `understudy export`.');

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
    const fast = (Uint8Array as any).fromBase64;  // where the browser is new enough
    if (fast) return fast.call(Uint8Array, text);
    const binary = atob(text), bytes = new Uint8Array(binary.length);
    for (let i = 0; i < bytes.length; ++i) bytes[i] = binary.charCodeAt(i);
    return bytes;
}

async function fetched(token: string): Promise<Uint8Array> {
    const response = await fetch('scene', {headers: {'X-Understudy-Token': token}});
    if (!response.ok) throw new SceneError(await response.text());
    return new Uint8Array(await response.arrayBuffer());
}

function fail(problem: unknown): void {
    const welcome = document.getElementById('welcome')!;
    const text = problem instanceof Error ? problem.message : String(problem);
    welcome.classList.add('failed');
    welcome.replaceChildren(el('div', {class: 'failure', role: 'alert', id: 'failure'},
        el('h1', {}, 'This character cannot be shown'), el('p', {}, text),
        el('p', {class: 'hint'}, 'The page needs a browser with WebGL 2 and WebAssembly: Chrome, Edge, Firefox or Safari 16.4 or newer.')));
}

async function start(): Promise<void> {
    const token = new URLSearchParams(location.search).get('token') ?? '';
    const mark = (name: string) => performance.mark(`understudy ${name}`);
    mark('started');
    const bytes = await embedded('scene') ?? await fetched(token);
    const wasm = await embedded(simd ? 'understudy.simd.wasm' : 'understudy.wasm');
    if (!wasm) throw damaged();
    mark('unpacked');
    const scene = await readScene(bytes, wasm);
    mark('read');
    const app = new App(scene, token);
    app.start();
    mark('shown');
    document.getElementById('welcome')!.remove();
    // For tests and for the curious: what is shown, in numbers.
    (window as any).understudy = app;
}

start().catch(fail);
