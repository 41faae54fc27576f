// A list of the bones with a search; the weights of the chosen one colour the mesh.

import {el, toggle} from './dom';
import type {Scene} from './scene';

export interface BoneActions {
    choose(bone: number): void;
    showBones(on: boolean): void;
    showRegions(kind: 'groups'|'virtual'|'anchors', on: boolean): void;
}

export class BonesPanel {
    readonly element: HTMLElement;
    #items: HTMLElement[] = [];
    #about = el('p', {class: 'hint', id: 'bone-about'});
    #scene: Scene;

    constructor(scene: Scene, actions: BoneActions) {
        this.#scene = scene;
        const names = scene.bones?.names ?? [], parents = scene.bones?.parents ?? [];
        const depth: number[] = [];
        parents.forEach((parent, bone) => { depth[bone] = parent < 0 ? 0 : depth[parent] + 1; });
        const list = el('div', {class: 'bone-list', role: 'listbox', 'aria-label': 'Bones'});
        for (const bone of treeOrder(parents)) {
            const item = el('button', {type: 'button', class: 'bone', role: 'option', 'data-bone': names[bone], click: () => actions.choose(bone)}, names[bone]);
            item.style.paddingLeft = `${10 + 10 * Math.min(depth[bone], 9)}px`;
            this.#items[bone] = item;
            list.append(item);
        }
        const search = el('input', {
            type: 'search', placeholder: `Search ${names.length} bones`, 'aria-label': 'Search bones', id: 'search-bones',
            input: () => this.#items.forEach((item, bone) => {
                item.hidden = !names[bone].toLowerCase().includes(search.value.toLowerCase());
            }),
        });
        const regions = scene.regions;
        const region = (kind: 'groups'|'virtual'|'anchors', text: string, title: string) =>
            toggle(text, `show-${kind}`, title, false, (on) => actions.showRegions(kind, on));
        this.element = el('div', {class: 'tab-body', id: 'bones-panel'},
            el('div', {class: 'sticky'}, el('div', {class: 'buttons'},
                names.length ? toggle('Bones', 'show-bones', 'Draw the bones (B)', false, (on) => actions.showBones(on)) : null,
                regions.groups ? region('groups', `${regions.groupCount} networks`, 'Colour the vertices by the network that moves them') : null,
                regions.anchors ? region('anchors', `${regions.anchors.length} anchors`, 'Mark the vertices that networks predict directly') : null,
                regions.virtual ? region('virtual', `${regions.virtualCount} virtual bones`, 'Colour the vertices by their virtual bone') : null),
            this.#about, names.length ? search : el('p', {class: 'hint'}, 'This character has no bones: controls drive it.')), list);
    }

    choose(bone: number): void {
        this.#items.forEach((item, b) => item.setAttribute('aria-selected', String(b === bone)));
        if (bone < 0) {
            this.#about.textContent = '';
            return;
        }
        this.#items[bone].scrollIntoView({block: 'nearest'});
        const {index, weight, shown} = this.#scene.regions;
        let count = 0;
        if (index && weight)
            for (let v = 0; v < this.#scene.vertexCount; ++v)
                for (let k = 0; k < shown; ++k) if (weight[v * shown + k] && index[v * shown + k] === bone) ++count;
        this.#about.textContent = index ? `${this.#scene.bones!.names[bone]} moves ${count.toLocaleString('en')} of ${
            this.#scene.vertexCount.toLocaleString('en')} vertices.` : this.#scene.bones!.names[bone];
    }
}

/** Bones so that children follow their parent. */
function treeOrder(parents: number[]): number[] {
    const children = new Map<number, number[]>();
    parents.forEach((parent, bone) => children.set(parent, [...(children.get(parent) ?? []), bone]));
    const order: number[] = [];
    const visit = (bone: number) => {
        order.push(bone);
        for (const child of children.get(bone) ?? []) visit(child);
    };
    for (const root of children.get(-1) ?? []) visit(root);
    return order;
}
