// Sliders of all controls, by body part, with a search; undo, reset, mirror, save, load, copy.

import {button, digits, el} from './dom';

/** One slider. */
export interface Slider {
    name: string;
    group: string;
    unit: string;
    low: number;
    high: number;
    rest: number;
}

export interface PoseActions {
    /** A slider moves; first: the gesture begins. */
    change(index: number, value: number, first: boolean): void;
    undo(): void;
    redo(): void;
    reset(): void;
    mirror(): void;
    save(): void;
    load(file: File): void;
    copy(): void;
}

interface Row {
    row: HTMLElement;
    input: HTMLInputElement;
    number: HTMLInputElement;
}

export class PosePanel {
    readonly element: HTMLElement;
    #rows: Row[] = [];
    #sliders: Slider[];
    #undo: HTMLButtonElement;
    #redo: HTMLButtonElement;

    constructor(sliders: Slider[], actions: PoseActions, hint: string, board: HTMLElement|null) {
        this.#sliders = sliders;
        this.#undo = button('Undo', 'undo', 'Undo (Ctrl+Z)', () => actions.undo());
        this.#redo = button('Redo', 'redo', 'Redo (Ctrl+Shift+Z)', () => actions.redo());
        const file = el('input', {
            type: 'file', accept: '.json,application/json', hidden: true, id: 'pose-file',
            change: () => {
                if (file.files?.[0]) actions.load(file.files[0]);
                file.value = '';
            },
        });
        const search = el('input', {
            type: 'search', id: 'search', placeholder: `Search ${sliders.length} controls`, 'aria-label': 'Search controls',
            input: () => this.#filter(search.value),
        });
        const none = el('p', {class: 'hint', id: 'no-match', hidden: true}, 'No control has this name.');
        this.element = el('div', {class: 'tab-body', id: 'pose-panel'},
            el('div', {class: 'buttons', hidden: !sliders.length}, this.#undo, this.#redo,
                button('Reset', 'reset', 'Back to the rest pose', () => actions.reset()),
                button('Mirror', 'mirror', 'Exchange left and right', () => actions.mirror()),
                button('Save', 'save', 'Save this pose as a file', () => actions.save()),
                button('Load', 'load', 'Load a pose from a file', () => file.click()),
                button('Copy', 'copy', 'Copy this pose as JSON', () => actions.copy()), file),
            hint ? el('p', {class: 'hint'}, hint) : null,
            board, sliders.length > 6 ? search : null, none, this.#groups(actions));
        this.enable(false, false);
    }

    #groups(actions: PoseActions): HTMLElement {
        const groups = new Map<string, HTMLElement>();
        const place = el('div', {class: 'groups'});
        const names = [...new Set(this.#sliders.map((slider) => slider.group))].filter(Boolean);
        names.sort((a, b) => Number(a === 'Other') - Number(b === 'Other'));
        for (const [i, name] of names.entries()) {
            const body = el('details', {open: i < 3 || names.length < 5}, el('summary', {}, name));
            groups.set(name, body);
            place.append(body);
        }
        this.#sliders.forEach((slider, index) => {
            const row = this.#row(slider, index, actions);
            this.#rows.push(row);
            groups.get(slider.group)!.append(row.row);
        });
        return place;
    }

    #row(slider: Slider, index: number, actions: PoseActions): Row {
        const step = (slider.high - slider.low) / 500 || 0.001;
        let first = true;
        const input = el('input', {
            type: 'range', min: slider.low, max: slider.high, step, value: slider.rest, 'aria-label': slider.name, 'data-control': slider.name,
            input: () => {
                actions.change(index, input.valueAsNumber, first);
                first = false;
            },
            change: () => { first = true; },
            dblclick: () => actions.change(index, slider.rest, true),
        });
        const number = el('input', {
            type: 'number', class: 'number', step: 'any', 'aria-label': `${slider.name}, value`, value: digits(slider.rest),
            change: () => {
                const value = Math.min(slider.high, Math.max(slider.low, number.valueAsNumber));
                actions.change(index, Number.isFinite(value) ? value : slider.rest, true);
            },
        });
        const label = el('span', {class: 'slider-name', title: `${slider.name}: ${digits(slider.low)} to ${digits(slider.high)} ${slider.unit}`},
            slider.name.replaceAll('_', ' ').replace(' rotation ', ' ↻ ').replace(' stretch ', ' ⇕ '));
        const row = el('label', {class: 'slider'}, label, input, number, el('span', {class: 'unit'}, slider.unit === 'deg' ? '°' : slider.unit.length < 4 ? slider.unit : ''));
        return {row, input, number};
    }

    #filter(text: string): void {
        const words = text.toLowerCase().split(/\s+/).filter(Boolean);
        let matches = 0;
        this.#rows.forEach(({row}, index) => {
            const {name, group} = this.#sliders[index];
            const all = `${name.replaceAll('_', ' ')} ${name} ${group}`.toLowerCase();
            row.hidden = !words.every((word) => all.includes(word));
            if (!row.hidden) ++matches;
        });
        for (const group of this.element.querySelectorAll('details')) {
            const any = [...group.querySelectorAll<HTMLElement>('.slider')].some((row) => !row.hidden);
            group.hidden = !any;
            if (words.length && any) group.open = true;
        }
        this.element.querySelector<HTMLElement>('#no-match')!.hidden = matches > 0;
    }

    /** Shows values of all sliders. */
    show(values: ArrayLike<number>): void {
        this.#rows.forEach(({input, number, row}, index) => {
            const value = values[index], {low, high, rest} = this.#sliders[index];
            if (document.activeElement !== input || input.valueAsNumber !== value) input.value = String(value);
            if (document.activeElement !== number) number.value = digits(value);
            const width = high - low || 1;
            row.style.setProperty('--rest', `${100 * (rest - low) / width}%`);
            row.style.setProperty('--value', `${100 * (Math.min(high, Math.max(low, value)) - low) / width}%`);
            row.classList.toggle('set', Math.abs(value - rest) > 1e-3 * width);
        });
    }

    enable(undo: boolean, redo: boolean): void {
        this.#undo.disabled = !undo;
        this.#redo.disabled = !redo;
    }
}
