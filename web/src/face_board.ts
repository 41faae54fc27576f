// A board for faces: pads that move two controls at once, laid out like a face.

import {el} from './dom';
import type {Slider} from './pose_panel';

interface Place {
    title: string;
    /** Names of the controls, without their side; the first that exists is taken. */
    x: string[];
    y: string[];
    row: number;
    /** -1: one for each side; else a column. */
    column: number;
    /** Whether larger values of y are below. */
    down?: boolean;
}

// Six columns; pads with a side stand at both ends of their row.
const PLACES: Place[] = [
    {title: 'Brow', x: ['brow_squeeze'], y: ['brow_inner', 'brow_raise'], row: 1, column: -1},
    {title: 'Forehead', x: ['brow_furrow'], y: ['forehead', 'brow_raise'], row: 1, column: 3},
    {title: 'Lids', x: ['lid_lower', 'squint'], y: ['lid_upper', 'blink'], row: 2, column: -1, down: true},
    {title: 'Gaze', x: ['eye_out'], y: ['eye_up'], row: 3, column: -1},
    {title: 'Nose', x: ['nose_tip'], y: ['nose_wrinkle', 'snarl'], row: 3, column: 3},
    {title: 'Cheek', x: ['cheek_puff'], y: ['cheek_raise'], row: 4, column: -1},
    {title: 'Lips', x: ['funnel', 'pucker'], y: ['lips_apart', 'pucker'], row: 4, column: 3},
    {title: 'Corner', x: ['corner_out', 'mouth_wide'], y: ['corner_up', 'smile'], row: 5, column: -1},
    {title: 'Mouth', x: ['mouth_shift'], y: ['mouth_raise', 'mouth_close'], row: 5, column: 3},
    {title: 'Jaw', x: ['jaw_side'], y: ['jaw_open'], row: 6, column: 3, down: true},
    {title: 'Head', x: ['head_turn'], y: ['head_nod'], row: 7, column: 3},
];
const FEWEST = 5;

interface Pad {
    x: number;
    y: number;
    dot: HTMLElement;
    mirrored: boolean;
    down: boolean;
}

export class FaceBoard {
    readonly element: HTMLElement;
    #pads: Pad[] = [];
    #sliders: Slider[];

    private constructor(sliders: Slider[], pads: [Place, string, number, number][], change: (index: number, value: number, first: boolean) => void) {
        this.#sliders = sliders;
        const grid = el('div', {class: 'board', role: 'group', 'aria-label': 'Face board'});
        for (const [place, side, x, y] of pads) {
            const dot = el('i', {});
            // The character's left is on the right of the board, as if one looked at it.
            const column = place.column > 0 ? place.column : side === 'R' ? 1 : side === 'L' ? 5 : 3;
            const title = `${place.title}${side ? `, ${side === 'L' ? 'left' : 'right'}` : ''}: ${sliders[x].name} and ${sliders[y].name}`;
            const pad = el('div', {class: 'pad', title, tabindex: 0, 'data-pad': `${sliders[x].name} ${sliders[y].name}`}, dot, el('span', {}, place.title));
            pad.style.gridArea = `${place.row} / ${column} / auto / span 2`;
            const made = {x, y, dot, mirrored: side === 'R', down: !!place.down};
            this.#pads.push(made);
            this.#listen(pad, made, change);
            grid.append(pad);
        }
        this.element = el('details', {open: true, class: 'face'}, el('summary', {}, 'Face board'), grid);
    }

    /** The board of a face; null: too few of its controls are those of a face. */
    static of(sliders: Slider[], change: (index: number, value: number, first: boolean) => void): FaceBoard|null {
        const index = new Map(sliders.map((slider, i) => [slider.name, i]));
        const find = (names: string[], end: string) => names.map((name) => index.get(name + end)).find((i) => i !== undefined);
        const pads: [Place, string, number, number][] = [];
        for (const place of PLACES)
            for (const [side, end] of [['L', '_L'], ['R', '_R'], ['', '']]) {
                if ((place.column < 0) !== (side !== '')) continue;
                const x = find(place.x, end), y = find(place.y, end);
                if (x !== undefined && y !== undefined && x !== y) pads.push([place, side, x, y]);
            }
        return pads.length < FEWEST ? null : new FaceBoard(sliders, pads, change);
    }

    #listen(element: HTMLElement, pad: Pad, change: (index: number, value: number, first: boolean) => void): void {
        const move = (event: PointerEvent, first: boolean) => {
            const box = element.getBoundingClientRect();
            const part = (x: number) => Math.min(1, Math.max(0, x));
            let x = part((event.clientX - box.left) / box.width), y = 1 - part((event.clientY - box.top) / box.height);
            if (pad.mirrored) x = 1 - x;
            if (pad.down) y = 1 - y;
            const value = (slider: Slider, at: number) => slider.low + at * (slider.high - slider.low);
            change(pad.x, value(this.#sliders[pad.x], x), first);
            change(pad.y, value(this.#sliders[pad.y], y), false);
        };
        element.addEventListener('pointerdown', (event) => {
            element.setPointerCapture(event.pointerId);
            move(event, true);
        });
        element.addEventListener('pointermove', (event) => {
            if (element.hasPointerCapture(event.pointerId)) move(event, false);
        });
        element.addEventListener('dblclick', () => {
            change(pad.x, this.#sliders[pad.x].rest, true);
            change(pad.y, this.#sliders[pad.y].rest, false);
        });
    }

    show(values: ArrayLike<number>): void {
        for (const {x, y, dot, mirrored, down} of this.#pads) {
            const at = (i: number) => {
                const {low, high} = this.#sliders[i];
                return Math.min(1, Math.max(0, (values[i] - low) / (high - low || 1)));
            };
            dot.style.left = `${100 * (mirrored ? 1 - at(x) : at(x))}%`;
            dot.style.top = `${100 * (down ? at(y) : 1 - at(y))}%`;
        }
    }
}
