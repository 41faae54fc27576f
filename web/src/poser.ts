// `Poser`: the current pose. It follows a clip until the user poses, and then keeps what was posed.
//
// Three things can pose: controls of the live rig, which the server evaluates; joints of the file's
// posing skeleton; and controls that the stand-in reads besides its bones.

import {notify} from './dom';
import {FaceBoard} from './face_board';
import {History} from './history';
import type {PosingSkeleton} from './ik';
import type {LiveRig} from './live';
import {PosePanel} from './pose_panel';
import type {Slider} from './pose_panel';
import type {Clip, Control, Scene} from './scene';

interface Pose {
    /** Values of all controls of the scene. */
    values: Float64Array;
    /** (B,12) of the first model, or of the scene; null: without bones. */
    bones: Float64Array|null;
    /** Values of all joints of the posing skeleton; null: the bones came from elsewhere. */
    joints: Float64Array|null;
    /** What the live rig shows; null: not known. */
    original: Float32Array|null;
    /** The frame of a clip that it is; null: it was posed. */
    frame: {clip: Clip|null, number: number}|null;
}

export class Poser {
    readonly panel: PosePanel;
    readonly sliders: Slider[];
    /** Milliseconds that inverse kinematics took in the last calls. */
    readonly times: number[] = [];
    #scene: Scene;
    #live: LiveRig|null;
    #posing: PosingSkeleton|null;
    #changed: () => void;
    #shown: number[];  // the controls that have a slider; the joints come first
    #jointCount: number;
    #board: FaceBoard|null;
    #clip: Clip|null = null;
    #frame = 0;
    #posed = false;
    #values: Float64Array;
    #bones: Float64Array|null;
    #joints: Float64Array|null = null;
    #original: Float32Array|null = null;
    #history = new History<Pose>();
    #asked = 0;
    #indices: Map<string, number>;

    constructor(scene: Scene, live: LiveRig|null, changed: () => void) {
        this.#scene = scene;
        this.#live = live;
        this.#posing = scene.posing;
        this.#changed = changed;
        this.#values = Float64Array.from(scene.controls, (c) => c.rest);
        this.#bones = scene.bones ? scene.bones.rest.slice() : null;
        this.#indices = new Map(scene.controls.map((control, i) => [control.name, i]));
        const joints = live || !this.#posing ? [] : this.#posing.joints;
        const own = new Set(this.#posing?.model.fromControls ? joints.map(({name}) => name) : []);
        this.#shown = scene.controls.flatMap((c, i) => c.read && !own.has(c.name) ? [i] : []);
        this.#jointCount = joints.length;
        this.sliders = [
            ...joints.map(({name, part, unit, low, high, rest}) => ({name, group: capital(part), unit, low, high, rest})),
            ...this.#shown.map((i) => slider(scene.controls[i], !!live)),
        ];
        const actions = {
            change: (index: number, value: number, first: boolean) => this.#slide(index, value, first),
            undo: () => this.undo(),
            redo: () => this.redo(),
            reset: () => this.reset(),
            mirror: () => this.#mirror(),
            save: () => this.#save(),
            load: (file: File) => void this.#load(file),
            copy: () => void this.#copy(),
        };
        this.#board = FaceBoard.of(this.sliders, actions.change);
        this.panel = new PosePanel(this.sliders, actions, this.#hint(), this.#board?.element ?? null);
    }

    #hint(): string {
        if (this.#live) return '';
        if (this.#posing) return this.#posing.handles.length ? 'Drag the round handles on the character, or move sliders.' : '';
        if (!this.#scene.models.length) return 'These are recorded frames: there is nothing to pose.';
        return this.sliders.length ? 'The bones follow the clip. These controls act besides them.' :
                                     'This file has nothing to pose with: its bones follow the clip.';
    }

    /** (B,12) of the current pose. */
    get bones(): Float64Array|null {
        return this.#bones;
    }

    get values(): Float64Array {
        return this.#values;
    }

    /** Values of the posing skeleton's joints in the current pose. */
    get joints(): Float64Array|null {
        return this.#joints;
    }

    /** Whether the user posed, so that the clip is not followed. */
    get posed(): boolean {
        return this.#posed;
    }

    get hasOriginal(): boolean {
        return this.#posed || this.#original ? !!this.#original : !!this.#clip?.original;
    }

    /**
     * Shows a frame of a clip.
     *
     * @param playing  whether frames follow quickly, so that sliders need not move
     */
    follow(clip: Clip|null, frame: number, playing: boolean): void {
        this.#clip = clip;
        this.#frame = frame;
        this.#posed = false;
        this.#joints = null;
        const count = this.#scene.controls.length, given = clip?.rigControls ?? clip?.controls;
        if (given) this.#values.set(given.subarray(frame * count, (frame + 1) * count));
        if (clip && !clip.original && clip.rigControls && this.#live) void this.#evaluate();
        else {
            ++this.#asked;
            this.#original = null;
            if (this.#bones) clip?.bones[0]?.decode(frame, this.#bones);
        }
        if (!playing) this.#show();
    }

    /** Fills bones and controls of a model. */
    fillModel(model: number): void {
        const {deformer} = this.#scene.models[model];
        const same = deformer.boneCount * 12 === this.#bones?.length;
        const own = this.#posed || this.#original;
        if (own && same) deformer.bones.set(this.#bones!);
        else this.#clip?.bones[model]?.decode(this.#frame, deformer.bones);
        deformer.controlNames.forEach((name, c) => {
            const i = this.#indices.get(name);
            if (i !== undefined) deformer.controls[c] = this.#values[i];
        });
    }

    /** Fills the vertices of the original; false: they are not known. */
    fillOriginal(out: Float32Array, predicted: Float32Array): boolean {
        if (this.#original) out.set(this.#original);
        else if (this.#posed || !this.#clip?.original) return false;
        else this.#clip.original.decode(this.#frame, predicted, out);
        return true;
    }

    /** A handle of the posing skeleton begins to move: the pose before can be restored. */
    grab(): void {
        this.#history.push(this.#snapshot());
        this.#needJoints();
    }

    /** Moves a handle of the posing skeleton to a point of the model. */
    drag(handle: number, target: readonly number[]): void {
        const start = performance.now();
        this.#joints = this.#posing!.drag(this.#needJoints(), handle, target);
        this.times.push(performance.now() - start);
        if (this.times.length > 120) this.times.shift();
        this.#applyJoints();
    }

    /** The handle was let go. */
    release(): void {
        this.#show();
    }

    undo(): void {
        this.#restore(this.#history.undo(this.#snapshot()));
    }

    redo(): void {
        this.#restore(this.#history.redo(this.#snapshot()));
    }

    /** Back to the rest pose. */
    reset(): void {
        this.#history.push(this.#snapshot());
        this.#scene.controls.forEach((control, i) => { this.#values[i] = control.rest; });
        this.#bones?.set(this.#scene.bones!.rest);
        this.#joints = this.#posing ? Float64Array.from(this.#posing.joints, (joint) => joint.rest) : null;
        this.#apply();
    }

    #slide(index: number, value: number, first: boolean): void {
        if (first) this.#history.push(this.#snapshot());
        if (index < this.#jointCount) {
            this.#needJoints()[index] = value;
            this.#applyJoints();
        } else {
            this.#values[this.#shown[index - this.#jointCount]] = value;
            this.#apply();
        }
        this.#show();
    }

    /** The joints of the current pose; they are found in its bones where something else posed. */
    #needJoints(): Float64Array {
        this.#posing!.setControls(this.#ownControls());
        return this.#joints ??= this.#posing!.fromBones(this.#bones!);
    }

    /** Values of the first model's controls. */
    #ownControls(): number[] {
        const {deformer} = this.#scene.models[0];
        return deformer.controlNames.map((name, c) => {
            const i = this.#indices.get(name);
            return i === undefined ? deformer.controlRest[c] : this.#values[i];
        });
    }

    #applyJoints(): void {
        if (this.#posing!.model.fromControls)
            this.#posing!.joints.forEach(({name}, n) => {
                const i = this.#indices.get(name);
                if (i !== undefined) this.#values[i] = this.#joints![n];
            });
        this.#posing!.toBones(this.#joints!, this.#bones!);
        ++this.#asked;
        this.#posed = true;
        this.#original = null;
        this.#changed();
    }

    /** The controls were changed by hand. */
    #apply(): void {
        this.#posed = true;
        if (this.#live) void this.#evaluate();
        else {
            this.#original = null;
            if (this.#posing && this.#joints) {
                this.#posing.setControls(this.#ownControls());
                this.#posing.toBones(this.#joints, this.#bones!);
            }
            this.#changed();
        }
        this.#show();
    }

    async #evaluate(): Promise<void> {
        const number = ++this.#asked;
        const result = await this.#live!.evaluate(this.#values.slice());
        if (!result || number < this.#asked) return;
        if (result.bones) this.#bones?.set(result.bones);
        this.#joints = null;
        this.#original = result.original;
        this.#changed();
    }

    /** Exchanges left and right. */
    #mirror(): void {
        if (this.#posing?.model.fromControls && !this.#live) {
            notify('Poses made with the controls of a rig cannot be mirrored.');
            return;
        }
        this.#history.push(this.#snapshot());
        const old = this.#values.slice();
        this.#scene.controls.forEach(({name, low}, i) => {
            const other = this.#indices.get(otherSide(name));
            if (other !== undefined && other !== i) this.#values[i] = old[other];
            else if (SIDEWAYS.test(name) && low < 0) this.#values[i] = -old[i];
        });
        if (this.#posing?.symmetric && !this.#live) this.#joints = this.#posing.mirror(this.#needJoints());
        else if (!this.#live && this.#posing) notify('This skeleton is not symmetric, so only controls are mirrored.');
        this.#apply();
    }

    #snapshot(): Pose {
        return {
            values: this.#values.slice(),
            bones: this.#bones?.slice() ?? null,
            joints: this.#joints?.slice() ?? null,
            original: this.#original,
            frame: this.#posed ? null : {clip: this.#clip, number: this.#frame},
        };
    }

    #restore(pose: Pose|null): void {
        if (!pose) return;
        if (pose.frame && pose.frame.clip === this.#clip) {
            this.follow(this.#clip, pose.frame.number, false);
            this.#changed();
            return;
        }
        this.#values.set(pose.values);
        if (pose.bones) this.#bones?.set(pose.bones);
        this.#joints = pose.joints?.slice() ?? null;
        ++this.#asked;
        this.#posed = true;
        this.#original = pose.original;
        this.#changed();
        this.#show();
    }

    #show(): void {
        const joints = this.#jointCount ? this.#needJoints() : [];
        const values = [...joints, ...this.#shown.map((i) => this.#values[i])];
        this.panel.show(values);
        this.#board?.show(values);
        this.panel.enable(this.#history.canUndo, this.#history.canRedo);
    }

    #text(): string {
        const text = {
            character: this.#scene.title,
            joints: Object.fromEntries(this.#jointCount ? Array.from(this.#needJoints(), (x, j) => [this.sliders[j].name, round(x)]) : []),
            controls: Object.fromEntries(this.#shown.map((i) => [this.#scene.controls[i].name, round(this.#values[i])])),
        };
        return JSON.stringify(text, null, 1);
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
            const given = JSON.parse(await file.text());
            const joints = this.sliders.slice(0, this.#jointCount).flatMap(({name}, j) => Number.isFinite(given?.joints?.[name]) ? [j] : []);
            const controls = this.#scene.controls.flatMap(({name}, i) => Number.isFinite(given?.controls?.[name]) ? [i] : []);
            if (!joints.length && !controls.length) throw new Error('it has no joint or control of this character');
            this.#history.push(this.#snapshot());
            for (const i of controls) {
                const {name, limits} = this.#scene.controls[i];
                this.#values[i] = Math.min(limits[1], Math.max(limits[0], given.controls[name]));
            }
            for (const j of joints) {
                const {name, low, high} = this.sliders[j];
                this.#needJoints()[j] = Math.min(high, Math.max(low, given.joints[name]));
            }
            this.#apply();
            notify(`Loaded ${joints.length + controls.length} values.`);
        } catch (problem) {
            notify(`${file.name} is not a pose: ${(problem as Error).message}`);
        }
    }
}

function slider({name, group, unit, low, high, limits, rest}: Control, live: boolean): Slider {
    const range = live ? limits : [low, high];
    return {name, group, unit, low: Math.min(range[0], rest), high: Math.max(range[1], rest), rest};
}

const SIDES: Record<string, string> = {L: 'R', R: 'L', l: 'r', r: 'l', left: 'right', right: 'left', Left: 'Right', Right: 'Left'};
// Controls of the middle whose sign is a side.
const SIDEWAYS = /(^|_)(side|twist|turn|tilt|shift|turn_y|turn_z|move_x)($|_)/;

function otherSide(name: string): string {
    return name.replace(/(^|[_.\- ])(L|R|l|r|left|right|Left|Right)(?=$|[_.\- ])/, (_, before: string, side: string) => before + SIDES[side]);
}

function capital(text: string): string {
    return text.charAt(0).toUpperCase() + text.slice(1);
}

function round(value: number): number {
    return Number(value.toPrecision(7));
}
