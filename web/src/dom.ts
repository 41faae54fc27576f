// Small helpers to build the interface.

type Attributes = Record<string, unknown>;

/** An element with attributes (functions become listeners) and children. */
export function el<K extends keyof HTMLElementTagNameMap>(
    tag: K, attributes: Attributes = {}, ...children: (Node|string|null)[]): HTMLElementTagNameMap[K] {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === 'function') element.addEventListener(name, value as EventListener);
        else if (name === 'class') element.className = String(value);
        else if (value === true) element.setAttribute(name, '');
        else if (value !== false && value !== null && value !== undefined)
            element.setAttribute(name, String(value));
    }
    element.append(...children.filter((child) => child !== null));
    return element;
}

/** A button with a text, a tooltip and an id for scripts and tests. */
export function button(text: string, id: string, title: string, press: () => void): HTMLButtonElement {
    return el('button', {type: 'button', id, title, click: press}, text);
}

/** A button that stays pressed. */
export function toggle(
    text: string, id: string, title: string, pressed: boolean, change: (on: boolean) => void): HTMLButtonElement {
    const made = button(text, id, title, () => {
        const on = made.getAttribute('aria-pressed') !== 'true';
        setPressed(made, on);
        change(on);
    });
    setPressed(made, pressed);
    return made;
}

export function setPressed(element: Element, on: boolean): void {
    element.setAttribute('aria-pressed', String(on));
}

/** Buttons of which one is pressed. */
export class Choice<T extends string> {
    readonly element: HTMLDivElement;
    #buttons = new Map<T, HTMLButtonElement>();
    #value: T;

    constructor(label: string, id: string, options: [T, string, string][], value: T, change: (value: T) => void) {
        this.#value = value;
        this.element = el('div', {class: 'choice', role: 'radiogroup', 'aria-label': label, id});
        for (const [name, text, title] of options) {
            const made = el('button', {
                type: 'button', role: 'radio', title, 'data-value': name,
                click: () => { this.value = name; change(name); },
            }, text);
            this.#buttons.set(name, made);
            this.element.append(made);
        }
        this.value = value;
    }

    get value(): T {
        return this.#value;
    }

    /** Whether one of the buttons can be pressed. */
    enable(name: T, on: boolean): void {
        const found = this.#buttons.get(name);
        if (found) found.disabled = !on;
    }

    set value(name: T) {
        this.#value = name;
        for (const [key, made] of this.#buttons) made.setAttribute('aria-checked', String(key === name));
    }
}

/** A length with three significant digits and its unit. */
export function lengthText(value: number, unit: string): string {
    if (!Number.isFinite(value)) return '–';
    // Errors are a fraction of a centimetre or metre; smaller units read better.
    const smaller: Record<string, [number, string]> = {m: [1000, 'mm'], cm: [10, 'mm']};
    const [factor, name] = smaller[unit] && value < 1 ? smaller[unit] : [1, unit];
    return `${digits(value * factor)} ${name}`;
}

/** A number with three significant digits. */
export function digits(value: number): string {
    if (value === 0) return '0';
    const size = Math.floor(Math.log10(Math.abs(value)));
    return value.toFixed(Math.min(6, Math.max(0, 2 - size)));
}

export function sizeText(bytes: number): string {
    return bytes >= 1e6 ? `${digits(bytes / 1e6)} MB` : `${digits(bytes / 1e3)} KB`;
}

/** A short message at the bottom of the page. */
export function notify(text: string): void {
    const place = document.getElementById('notices') ?? document.body;
    const note = el('div', {class: 'notice', role: 'status'}, text);
    place.append(note);
    setTimeout(() => note.remove(), 4000);
}
