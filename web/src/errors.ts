// Errors per vertex, their scale, and the mark at the worst vertex.

import {ERROR_RAMP, WEIGHT_RAMP, css} from './colours';
import {button, el, lengthText} from './dom';

export interface ErrorSummary {
    mean: number;
    largest: number;
    vertex: number;
}

/** Writes the distance of each vertex of two shapes (V,3) to `out` (V). */
export function measure(a: Float32Array, b: Float32Array, out: Float32Array): ErrorSummary {
    let sum = 0, largest = -1, vertex = 0;
    for (let v = 0; v < out.length; ++v) {
        const x = a[3 * v] - b[3 * v], y = a[3 * v + 1] - b[3 * v + 1], z = a[3 * v + 2] - b[3 * v + 2];
        const distance = Math.sqrt(x * x + y * y + z * z);
        out[v] = distance;
        sum += distance;
        if (distance > largest) {
            largest = distance;
            vertex = v;
        }
    }
    return {mean: sum / out.length, largest, vertex};
}

/** The next of 1, 2, 5, 10, ... that is not below a value. */
export function niceAbove(value: number): number {
    if (!(value > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
    return power * ([1, 2, 5, 10].find((n) => n * power >= value * (1 - 1e-9)) ?? 10);
}

function niceBelow(value: number): number {
    const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
    return power * ([5, 2, 1, 0.5].find((n) => n * power < value * (1 - 1e-9)) ?? 0.5);
}

/** The legend of a map: colours, numbers, and buttons that change the scale. */
export class Legend {
    readonly element: HTMLElement;
    most = 1;
    #title = el('span', {class: 'legend-title'});
    #bar = el('div', {class: 'legend-bar'});
    #ticks = el('div', {class: 'legend-ticks number'});
    #buttons: HTMLElement;

    constructor(readonly unit: string, changed: () => void) {
        const scale = (to: (value: number) => number) => () => {
            this.most = to(this.most);
            changed();
        };
        this.#buttons = el('span', {class: 'legend-buttons'},
            button('−', 'scale-down', 'Smaller scale: smaller errors stand out', scale(niceBelow)),
            button('+', 'scale-up', 'Larger scale', scale((value) => niceAbove(value * 1.01))));
        this.element = el('div', {id: 'legend', hidden: true},
            el('div', {class: 'row'}, this.#title, el('span', {class: 'grow'}), this.#buttons), this.#bar, this.#ticks);
    }

    showErrors(): void {
        this.element.hidden = false;
        this.#buttons.hidden = false;
        this.#title.textContent = 'Error per vertex';
        this.#bar.style.background = css(ERROR_RAMP);
        this.#ticks.replaceChildren(...[0, 0.5, 1].map((part) => {
            const text = part ? lengthText(part * this.most, this.unit) : '0';
            return el('span', {}, part === 1 ? `≥ ${text}` : text);
        }));
    }

    showWeights(bone: string): void {
        this.element.hidden = false;
        this.#buttons.hidden = true;
        this.#title.textContent = `Weights of ${bone}`;
        this.#bar.style.background = css(WEIGHT_RAMP);
        this.#ticks.replaceChildren(...['0', '0.5', '1'].map((text) => el('span', {}, text)));
    }

    hide(): void {
        this.element.hidden = true;
    }
}
