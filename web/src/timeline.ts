// The timeline: play, scrub, loop, speed, and the error over time as a curve.

import {Choice, button, el, lengthText, setPressed, toggle} from './dom';
import type {Clip, Scene} from './scene';

export const MODEL_COLOURS = ['#ffb454', '#6fb3ff', '#c792ea', '#7bd88f', '#ff7a90'];

const PLAY = '▶', PAUSE = '❚❚';

export class Timeline {
    readonly element: HTMLElement;
    playing = false;
    loop = true;
    speed = 1;
    clip = 0;
    frame = 0;
    #time = 0;  // in frames
    #scene: Scene;
    #canvas = el('canvas', {id: 'curve', tabindex: 0, role: 'slider', 'aria-label': 'Frame'});
    #play: HTMLButtonElement;
    #clips: HTMLSelectElement;
    #label = el('span', {id: 'frame-label', class: 'number'});
    #legend = el('div', {id: 'curve-legend'});
    #changed: (user: boolean) => void;

    /** @param changed  called after the frame or the clip changed; user: by hand */
    constructor(scene: Scene, changed: (user: boolean) => void) {
        this.#scene = scene;
        this.#changed = changed;
        this.#play = button(PLAY, 'play', 'Play or pause (space)', () => this.toggle());
        const clips = this.#clips = el('select', {
            id: 'clip', 'aria-label': 'Clip',
            change: () => this.choose(Number(clips.value)),
        }, ...scene.clips.map((clip, i) => el('option', {value: i}, clip.name)));
        const speeds = new Choice('Speed', 'speed', [['0.25', '¼', 'Quarter speed'], ['0.5', '½', 'Half speed'], ['1', '1×', 'Full speed']],
            '1', (value) => { this.speed = Number(value); });
        const worst = button('Worst frame', 'worst-frame', 'Go to the frame with the largest error', () => this.#worst());
        worst.hidden = !scene.clips.some((clip) => clip.errors.length);
        this.element = el('footer', {id: 'timeline'},
            el('div', {class: 'row'}, this.#play,
                scene.clips.length > 1 ? clips : el('span', {class: 'clip-name'}, scene.clips[0]?.name ?? ''), this.#label,
                el('span', {class: 'grow'}), this.#legend, worst,
                toggle('Loop', 'loop', 'Start again at the end', true, (on) => { this.loop = on; }), speeds.element),
            this.#canvas);
        this.element.hidden = !scene.clips.length;
        this.#listen();
        new ResizeObserver(() => this.draw()).observe(this.#canvas);
    }

    get current(): Clip|null {
        return this.#scene.clips[this.clip] ?? null;
    }

    choose(clip: number): void {
        this.clip = clip;
        this.#clips.value = String(clip);
        this.seek(0, true);
    }

    seek(frame: number, user: boolean): void {
        const clip = this.current;
        if (!clip) return;
        this.#time = this.frame = Math.min(clip.frames - 1, Math.max(0, Math.round(frame)));
        this.draw();
        this.#changed(user);
    }

    toggle(on = !this.playing): void {
        const clip = this.current;
        this.playing = on && !!clip && clip.frames > 1;
        if (this.playing && clip && this.frame >= clip.frames - 1 && !this.loop) this.#time = 0;
        const changed = this.#play.textContent !== (this.playing ? PAUSE : PLAY);
        this.#play.textContent = this.playing ? PAUSE : PLAY;
        setPressed(this.#play, this.playing);
        if (changed) this.#changed(true);
    }

    /** Goes on by some seconds. */
    advance(seconds: number): void {
        const clip = this.current;
        if (!this.playing || !clip) return;
        this.#time += seconds * clip.rate * this.speed;
        if (this.#time >= clip.frames) {
            if (this.loop) this.#time %= clip.frames;
            else {
                this.#time = clip.frames - 1;
                this.toggle(false);
            }
        }
        const frame = Math.floor(this.#time);
        if (frame === this.frame) return;
        this.frame = frame;
        this.draw();
        this.#changed(false);
    }

    #worst(): void {
        const errors = this.current?.errors[0]?.largest;
        if (!errors) return;
        this.toggle(false);
        this.seek(errors.indexOf(errors.reduce((a, b) => Math.max(a, b))), true);
    }

    #listen(): void {
        const canvas = this.#canvas;
        const scrub = (event: PointerEvent) => {
            const clip = this.current, box = canvas.getBoundingClientRect();
            if (clip) this.seek((event.clientX - box.left) / box.width * (clip.frames - 1), true);
        };
        canvas.addEventListener('pointerdown', (event) => {
            this.toggle(false);
            canvas.setPointerCapture(event.pointerId);
            scrub(event);
        });
        canvas.addEventListener('pointermove', (event) => {
            if (canvas.hasPointerCapture(event.pointerId)) scrub(event);
        });
        canvas.addEventListener('keydown', (event) => {
            const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
            if (!step) return;
            event.preventDefault();
            this.toggle(false);
            this.seek(this.frame + step, true);
        });
    }

    draw(): void {
        const clip = this.current, canvas = this.#canvas;
        if (!clip) return;
        this.#label.textContent = `${clip.start + this.frame} / ${clip.start + clip.frames - 1}`;
        const ratio = Math.min(devicePixelRatio || 1, 2);
        const width = canvas.clientWidth, height = canvas.clientHeight;
        if (!width || !height) return;
        if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
        if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
        const pen = canvas.getContext('2d')!;
        pen.setTransform(ratio, 0, 0, ratio, 0, 0);
        pen.clearRect(0, 0, width, height);
        const x = (frame: number) => clip.frames > 1 ? 5 + frame / (clip.frames - 1) * (width - 10) : width / 2;
        this.#ticks(pen, clip, x, height);
        const tops = clip.errors.map((error) => error.mean.reduce((a, b) => Math.max(a, b), 0));
        const top = Math.max(...tops, 0);
        const y = (value: number) => height - 13 - (top ? value / top : 0) * (height - 30);
        clip.errors.forEach((error, model) => {
            pen.beginPath();
            error.mean.forEach((value, frame) => pen.lineTo(x(frame), y(value)));
            pen.strokeStyle = MODEL_COLOURS[model % MODEL_COLOURS.length];
            pen.lineWidth = model ? 1.25 : 2;
            pen.stroke();
            if (model) return;
            pen.lineTo(x(clip.frames - 1), height - 13);
            pen.lineTo(x(0), height - 13);
            pen.fillStyle = '#ffb45422';
            pen.fill();
        });
        if (top) {
            pen.fillStyle = '#8d97a8';
            pen.font = '10px system-ui, sans-serif';
            pen.fillText(`${lengthText(top, this.#scene.unit)} mean`, 8, 11);
        }
        pen.fillStyle = '#f4f6fa';
        pen.fillRect(x(this.frame) - 0.75, 2, 1.5, height - 4);
        pen.beginPath();
        pen.arc(x(this.frame), height - 8, 4.5, 0, 7);
        pen.fill();
        canvas.setAttribute('aria-valuenow', String(this.frame));
        canvas.setAttribute('aria-valuemax', String(clip.frames - 1));
        this.#legend.replaceChildren(...clip.errors.map((_, model) => {
            const name = el('span', {class: 'key'}, this.#scene.models[model].label);
            name.style.setProperty('--colour', MODEL_COLOURS[model % MODEL_COLOURS.length]);
            return name;
        }));
    }

    #ticks(pen: CanvasRenderingContext2D, clip: Clip, x: (frame: number) => number, height: number): void {
        const second = Math.max(1, Math.round(clip.rate));
        pen.fillStyle = '#ffffff14';
        for (let frame = 0; frame < clip.frames; frame += second) pen.fillRect(x(frame), 2, 1, height - 15);
        pen.fillStyle = '#ffffff2a';
        pen.fillRect(x(0), height - 8.5, x(clip.frames - 1) - x(0), 1.5);
        pen.fillStyle = '#8d97a8';
        pen.font = '9px system-ui, sans-serif';
        for (let frame = second; frame < clip.frames - second / 2; frame += second)
            pen.fillText(`${Math.round(frame / clip.rate)} s`, x(frame) + 3, height - 17);
    }
}
