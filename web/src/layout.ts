// Where each surface is drawn: one, side by side, one over the other, or with a swipe between two.

import type {Rect} from './stage';
import type {Surface} from './surface';

export type Layout = 'single'|'side'|'overlay'|'swipe';

export interface Cell {
    view: Rect;
    clip: Rect;
    surfaces: Surface[];
    label: string;
}

/**
 * The cells of the window.
 *
 * @param area     what the interface leaves free
 * @param shown    the surface of a single view, on the right of a swipe and under an overlay
 * @param against  the surface it is compared with, or null
 * @param split    place of the swipe, 0 to 1
 */
export function cells(
    layout: Layout, area: Rect, all: Surface[], shown: Surface, against: Surface|null, split: number): Cell[] {
    const whole = (surfaces: Surface[], label: string): Cell[] => [{view: area, clip: area, surfaces, label}];
    if (layout === 'overlay' && against)
        return whole([shown, against], `${shown.label} and, in blue, ${against.label}`);
    if (layout === 'swipe' && against) {
        const cut = Math.round(area.width * split);
        return [
            {view: area, clip: {...area, width: cut}, surfaces: [against], label: against.label},
            {view: area, clip: {...area, x: area.x + cut, width: area.width - cut}, surfaces: [shown], label: shown.label},
        ];
    }
    if (layout === 'side' && all.length > 1) {
        const rows = area.height > area.width && all.length > 3 ? 2 : 1;
        const columns = Math.ceil(all.length / rows);
        const width = Math.floor(area.width / columns), height = Math.floor(area.height / rows);
        return all.map((surface, i) => {
            const view = {x: area.x + (i % columns) * width, y: area.y + Math.floor(i / columns) * height, width, height};
            return {view, clip: view, surfaces: [surface], label: surface.label};
        });
    }
    return whole([shown], shown.label);
}
