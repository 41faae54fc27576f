// Colours of the mesh: skin and parts, errors, weights, regions. All in sRGB, 0 to 255.

type Colour = [number, number, number];

/** Colours between stops, as 256 rows of three bytes. */
function ramp(stops: Colour[]): Uint8Array {
    const table = new Uint8Array(3 * 256);
    for (let i = 0; i < 256; ++i) {
        const place = i / 255 * (stops.length - 1), low = Math.min(Math.floor(place), stops.length - 2);
        for (let c = 0; c < 3; ++c)
            table[3 * i + c] = stops[low][c] + (place - low) * (stops[low + 1][c] - stops[low][c]);
    }
    return table;
}

// No error is a quiet blue grey; the eye goes to yellow, then to red.
export const ERROR_RAMP = ramp([[70, 92, 122], [88, 143, 163], [139, 190, 152], [238, 214, 104], [240, 138, 66], [206, 46, 54], [122, 12, 60]]);
export const WEIGHT_RAMP = ramp([[96, 100, 108], [92, 124, 168], [84, 178, 190], [240, 206, 92], [236, 104, 56]]);

export function css(table: Uint8Array): string {
    const stops = Array.from({length: 17}, (_, i) => {
        const at = 3 * Math.round(i / 16 * 255);
        return `rgb(${table[at]} ${table[at + 1]} ${table[at + 2]})`;
    });
    return `linear-gradient(to right, ${stops.join(', ')})`;
}

/** Fills (V,3) colours with the places of values between 0 and `most` on a ramp. */
export function fillRamp(colours: Uint8Array, values: ArrayLike<number>, most: number, table: Uint8Array): void {
    const factor = most > 0 ? 255 / most : 0;
    for (let i = 0; i < values.length; ++i) {
        const at = 3 * Math.min(255, Math.max(0, Math.round(values[i] * factor)));
        colours[3 * i] = table[at];
        colours[3 * i + 1] = table[at + 1];
        colours[3 * i + 2] = table[at + 2];
    }
}

/** A colour for a number: neighbours in number get colours that differ. */
export function distinct(number: number): Colour {
    const hue = (number * 0.61803398875) % 1, light = 0.62 + 0.1 * ((number * 0.37) % 1);
    const saturation = 0.5;
    const f = (n: number) => {
        const k = (n + hue * 12) % 12, a = saturation * Math.min(light, 1 - light);
        return 255 * (light - a * Math.max(-1, Math.min(k - 3, 9 - k, 1)));
    };
    return [f(0), f(8), f(4)];
}

export const LOOKS: Record<string, Colour> = {skin: [206, 148, 122], clay: [166, 170, 176]};

const PARTS: [RegExp, Colour][] = [
    [/eye(?!brow|lid|lash)/i, [238, 234, 230]],
    [/teeth|tooth/i, [158, 150, 136]],
    [/tongue|gum/i, [126, 58, 60]],
    [/lash|brow|hair/i, [74, 56, 48]],
];

export function isEye(name: string): boolean {
    return PARTS[0][0].test(name);
}

export function partColour(name: string): Colour|null {
    return PARTS.find(([pattern]) => pattern.test(name))?.[1] ?? null;
}
