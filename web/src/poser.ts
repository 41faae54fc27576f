// `Poser`: the current pose. It follows a clip until a slider moves, and then keeps what was posed.

import {notify} from './dom';
import {History} from './history';
import type {LiveRig} from './live';
import {PosePanel} from './pose_panel';
import type {Slider} from './pose_panel';
import type {Clip, Control, Scene} from './scene';

interface Pose {
    /** Values of all controls of the scene. */
    values: Float64Array;
    /** (B,12) of the first model, or of the scene; null: without bones. */
    bones: Float64Array|null;
    /** What the live rig shows; null: not known. */
    original: Float32Array|null;
}

export class Poser {
    readonly panel: PosePanel;
    readonly sliders: Slider[];
    #scene: Scene;
    #live: LiveRig|null;
    #changed: () => void;
    #shown: number[];  // the controls that have a slider
    #clip: Clip|null = null;
    #frame = 0;
    #pose: Pose|null = null;  // null: the clip's
    #values: Float64Array;
    #bones: Float64Array|null;
    #history = new History<Pose>();
    #asked = 0;

    constructor(scene: Scene, live: LiveRig|null, changed: () => void) {
        this.#scene = scene;
        this.#live = live;
        this.#changed = changed;
        this.#values = Float64Array.from(scene.controls, (c) => c.rest);
        this.#bones = scene.bones ? scene.bones.rest.slice() : null;
        this.#shown = scene.controls.flatMap((c, i) => c.read ? [i] : []);
        this.sliders = this.#shown.map((i) => slider(scene.controls[i], !!live));
        const hint = !this.sliders.length ? 'This stand-in has no controls of its own: bones drive it.' :
            live ? '' : 'The bones follow the clip. These controls act besides them.';
        this.panel = new PosePanel(this.sliders, {
            change: (index, value, first) => this.#slide(index, value, first),
            undo: () => this.undo(),
            redo: () => this.redo(),
            reset: () => this.#reset(),
            mirror: () => this.#mirror(),
            save: () => this.#save(),
            load: (file) => void this.#load(file),
            copy: () => void this.#copy(),
        }, hint);
    }

    /** (B,12) of the current pose. */
    get bones(): Float64Array|null {
        return this.#bones;
    }

    get values(): Float64Array {
        return this.#values;
    }

    get hasOriginal(): boolean {
        return this.#pose ? !!this.#pose.original : !!this.#clip?.original;
    }

    /** Shows a frame of a clip. */
    follow(clip: Clip|null, frame: number): void {
        this.#clip = clip;
        this.#frame = frame;
        const {controls} = this.#scene, count = controls.length;
        const given = clip?.rigControls ?? clip?.controls;
        if (given) this.#values.set(given.subarray(frame * count, (frame + 1) * count));
        if (clip && !clip.original && clip.rigControls && this.#live) {
            void this.#evaluate(this.#values.slice());
        } else {
            ++this.#asked;
            this.#pose = null;
            if (this.#bones) clip?.bones[0]?.decode(frame, this.#bones);
        }
        this.#show();
    }

    /** Fills bones and controls of a model. */
    fillModel(model: number): void {
        const {deformer} = this.#scene.models[model], pose = this.#pose, clip = this.#clip;
        const same = deformer.boneCount * 12 === this.#bones?.length;
        if (pose?.bones && same) deformer.bones.set(pose.bones);
        else clip?.bones[model]?.decode(this.#frame, deformer.bones);
        deformer.controlNames.forEach((name, c) => {
            const own = this.#controlIndex.get(name);
            if (own !== undefined) deformer.controls[c] = this.#values[own];
        });
    }

    get #controlIndex(): Map<string, number> {
        return this.#index ??= new Map(this.#scene.controls.map((control, i) => [control.name, i]));
    }

    #index: Map<string, number>|null = null;

    /** Fills the vertices of the original; false: they are not known. */
    fillOriginal(out: Float32Array, predicted: Float32Array): boolean {
        if (this.#pose) {
            if (!this.#pose.original) return false;
            out.set(this.#pose.original);
            return true;
        }
        if (!this.#clip?.original) return false;
        this.#clip.original.decode(this.#frame, predicted, out);
        return true;
    }

    undo(): void {
        this.#restore(this.#history.undo(this.#snapshot()));
    }

    redo(): void {
        this.#restore(this.#history.redo(this.#snapshot()));
    }

    #slide(index: number, value: number, first: boolean): void {
        if (first) this.#history.push(this.#snapshot());
        this.#values[this.#shown[index]] = value;
        this.#apply();
    }

    #reset(): void {
        this.#history.push(this.#snapshot());
        this.#scene.controls.forEach((control, i) => { this.#values[i] = control.rest; });
        if (this.#bones) this.#bones.set(this.#scene.bones!.rest);
        this.#apply();
    }

    /** Exchanges the values of controls that differ in their side only. */
    #mirror(): void {
        this.#history.push(this.#snapshot());
        const {controls} = this.#scene, old = this.#values.slice();
        controls.forEach((control, i) => {
            const other = this.#controlIndex.get(otherSide(control.name));
            if (other !== undefined) this.#values[i] = old[other];
            else if (/(^|_)(side|twist|turn|tilt|shift)($|_)/.test(control.name) && control.low < 0) this.#values[i] = -old[i];
        });
        this.#apply();
    }

    #snapshot(): Pose {
        return {values: this.#values.slice(), bones: this.#bones?.slice() ?? null, original: this.#pose?.original ?? null};
    }

    #restore(pose: Pose|null): void {
        if (!pose) return;
        this.#values.set(pose.values);
        if (pose.bones) this.#bones = pose.bones.slice();
        this.#apply();
    }

    /** The values or the bones were changed by hand. */
    #apply(): void {
        if (this.#live) void this.#evaluate(this.#values.slice());
        else {
            this.#pose = {values: this.#values, bones: this.#bones, original: null};
            this.#changed();
        }
        this.#show();
    }

    async #evaluate(values: Float64Array): Promise<void> {
        const number = ++this.#asked;
        const result = await this.#live!.evaluate(values);
        if (!result || number < this.#asked) return;
        if (result.bones && this.#bones) this.#bones.set(result.bones);
        this.#pose = {values, bones: this.#bones, original: result.original};
        this.#changed();
    }

    #show(): void {
        this.panel.show(this.#shown.map((i) => this.#values[i]));
        this.panel.enable(this.#history.canUndo, this.#history.canRedo);
    }

    #text(): string {
        const controls = Object.fromEntries(this.#shown.map((i) => [this.#scene.controls[i].name, round(this.#values[i])]));
        return JSON.stringify({character: this.#scene.title, controls}, null, 1);
    }

    #save(): void {
        const link = document.createElement('a');
        link.href = URL.createObjectURL(new Blob([this.#text()], {type: 'application/json'}));
        link.download = `${this.#scene.title}-pose.json`;
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    }

    async #copy(): Promise<void> {
        try {
            await navigator.clipboard.writeText(this.#text());
            notify('Copied this pose as JSON.');
        } catch {
            notify('The browser did not allow copying; use Save.');
        }
    }

    async #load(file: File): Promise<void> {
        try {
            if (file.size > 1 << 20) throw new Error('it is larger than a pose');
            const given = JSON.parse(await file.text()).controls;
            if (typeof given !== 'object' || !given) throw new Error('it has no "controls"');
            const names = Object.keys(given).filter((name) => this.#controlIndex.has(name) && Number.isFinite(given[name]));
            if (!names.length) throw new Error('it has no control of this character');
            this.#history.push(this.#snapshot());
            for (const name of names) {
                const i = this.#controlIndex.get(name)!, {limits} = this.#scene.controls[i];
                this.#values[i] = Math.min(limits[1], Math.max(limits[0], given[name]));
            }
            this.#apply();
            notify(`Loaded ${names.length} controls.`);
        } catch (problem) {
            notify(`${file.name} is not a pose: ${(problem as Error).message}`);
        }
    }
}

function slider({name, group, unit, low, high, limits, rest}: Control, live: boolean): Slider {
    const range = live ? limits : [low, high];
    return {name, group, unit, low: Math.min(range[0], rest), high: Math.max(range[1], rest), rest};
}

function otherSide(name: string): string {
    return name.replace(/(^|[_.\- ])(L|R|l|r|left|right|Left|Right)(?=$|[_.\- ])/, (_, before: string, side: string) => before + SIDES[side]);
}

const SIDES: Record<string, string> = {L: 'R', R: 'L', l: 'r', r: 'l', left: 'right', right: 'left', Left: 'Right', Right: 'Left'};

function round(value: number): number {
    return Number(value.toPrecision(7));
}
