// `App`: what is shown and how the parts of the page work together.

import * as THREE from 'three';
import {BonesPanel} from './bones_panel';
import {BonesView} from './bones_view';
import {ERROR_RAMP, WEIGHT_RAMP, distinct, fillRamp} from './colours';
import {Choice, button, digits, el, lengthText, notify, setPressed, sizeText, toggle} from './dom';
import {Legend, measure, niceAbove} from './errors';
import type {ErrorSummary} from './errors';
import {cells} from './layout';
import type {Cell, Layout} from './layout';
import {Handles} from './handles';
import type {PosingSkeleton} from './ik';
import {LiveRig} from './live';
import {Poser} from './poser';
import type {Scene} from './scene';
import {Stage} from './stage';
import type {Rect} from './stage';
import {Shared, Surface, computeNormals} from './surface';
import {Timeline} from './timeline';

type MapKind = 'none'|'error'|'weights'|'groups'|'virtual';

export class App {
    readonly stage: Stage;
    readonly timeline: Timeline;
    readonly poser: Poser;
    readonly surfaces: Surface[] = [];
    /** How to pose the first model without its rig, or null. */
    readonly posing: PosingSkeleton|null;
    readonly original: Surface|null = null;
    layout: Layout = 'single';
    map: MapKind = 'none';
    /** Milliseconds of the last calls of the first deformer. */
    readonly times: number[] = [];
    /** Errors of each model in the current pose; empty: the original is not known. */
    errors: (ErrorSummary|null)[] = [];
    #scene: Scene;
    #shared: Shared;
    #canvas = el('canvas', {id: 'stage', tabindex: 0, 'aria-label': 'The character'});
    #labels = el('div', {id: 'labels'});
    #swipe = el('div', {id: 'swipe', hidden: true, role: 'separator', 'aria-label': 'Swipe between the two'}, el('span', {}, '◂▸'));
    #mark = el('div', {id: 'worst', hidden: true});
    #readout = el('div', {id: 'readout', class: 'number'});
    #trouble = el('div', {id: 'trouble', role: 'alert', hidden: true});
    #legend: Legend;
    #bonesView: BonesView|null = null;
    #bonesPanel: BonesPanel;
    #handles: Handles|null = null;
    #showHandles = true;
    #subject: Choice<string>;
    #layoutChoice: Choice<Layout>;
    #heat: HTMLButtonElement;
    #split = 0.5;
    #bone = -1;
    #cells: Cell[] = [];
    #distances: Float32Array;
    #bonesNow: Float64Array|null = null;
    #anchors: THREE.Points|null = null;
    #last = 0;

    constructor(scene: Scene, token: string) {
        this.#scene = scene;
        this.posing = scene.posing;
        document.title = `${scene.title} · Understudy`;
        document.body.append(this.#canvas);
        this.stage = new Stage(this.#canvas, scene);
        this.#shared = new Shared(scene);
        this.#distances = new Float32Array(scene.vertexCount);
        scene.models.forEach((model, number) => {
            const {positions, normals} = model.deformer;
            this.surfaces.push(new Surface(`model-${number}`, model.label, this.#shared, positions, normals));
        });
        if (scene.live || scene.clips.some((clip) => clip.original)) {
            const original = new Surface('original', 'original', this.#shared, scene.rest.slice(), new Float32Array(scene.rest.length));
            this.original = original;
            this.surfaces.splice(Math.min(1, this.surfaces.length), 0, original);
        }
        for (const surface of this.surfaces) this.stage.model.add(surface.object);
        if (scene.bones) {
            this.#bonesView = new BonesView(scene.bones, scene);
            this.#bonesView.object.visible = false;
            this.stage.model.add(this.#bonesView.object);
        }
        this.#addAnchors();

        const live = scene.live ? new LiveRig(token) : null;
        if (live) live.onTrouble = (text) => this.#showTrouble(text);
        this.poser = new Poser(scene, live, () => this.changed());
        this.timeline = new Timeline(scene, () => {
            this.poser.follow(this.timeline.current, this.timeline.frame, this.timeline.playing);
            this.changed();
        });
        if (scene.posing?.handles.length)
            this.#handles = new Handles(scene.posing, this.stage, {
                grab: () => {
                    this.timeline.toggle(false);
                    this.poser.grab();
                },
                drag: (handle, target) => this.poser.drag(handle, target),
                release: () => this.poser.release(),
            });
        this.#legend = new Legend(scene.unit, () => this.recolour());
        this.#legend.most = this.#defaultScale();
        this.#bonesPanel = new BonesPanel(scene, {
            choose: (bone) => this.chooseBone(bone),
            showBones: (on) => this.showBones(on),
            showRegions: (kind, on) => this.#showRegions(kind, on),
        });
        this.#subject = new Choice('Shown', 'subject', this.surfaces.map((s) => [s.key, s.label, `Show ${s.label}`]),
            this.surfaces[0].key, () => this.#arrange());
        this.#layoutChoice = new Choice<Layout>('Layout', 'layout', [
            ['single', 'Single', 'One at a time (1)'], ['side', 'Side by side', 'All next to each other (2)'],
            ['swipe', 'Swipe', 'Drag a border between the original and the stand-in (3)'],
            ['overlay', 'Overlay', 'The original in blue over the stand-in (4)'],
        ], 'single', (value) => this.setLayout(value));
        this.#heat = toggle('Error', 'heat', 'Colour the error of each vertex (E)', false, (on) => this.setMap(on ? 'error' : 'none'));
        this.#build();
        this.#listen();
    }

    /** First picture, then a loop that draws only what changed. */
    start(): void {
        this.#resize();
        this.poser.follow(this.timeline.current, 0, false);
        this.changed();
        this.timeline.draw();
        this.#frame(true);
        new ResizeObserver(() => this.#resize()).observe(document.body);
        const loop = (now: number) => {
            requestAnimationFrame(loop);
            this.timeline.advance(Math.min(0.25, (now - this.#last) / 1000));
            this.#last = now;
            if (this.stage.needsDrawing()) this.#draw();
        };
        this.#last = performance.now();
        requestAnimationFrame(loop);
        setTimeout(() => this.#warmUp(), 500);
    }

    /** Runs the deformer a few times, so that its first time is not that of a cold processor. */
    #warmUp(): void {
        const deformer = this.#scene.models[0]?.deformer;
        if (!deformer) return;
        this.times.length = 0;
        for (let call = 0; call < 8; ++call) {
            const start = performance.now();
            deformer.deform(deformer.bones, deformer.controls, {normals: true});
            this.times.push(performance.now() - start);
        }
        this.#showNumbers();
    }

    // ---- what is shown -------------------------------------------------------------------------

    /** The pose changed: compute what is visible. */
    changed(): void {
        for (const surface of this.surfaces) surface.current = false;
        const known = this.poser.hasOriginal;
        if (known !== this.#originalKnown) {
            this.#originalKnown = known;
            this.#subject.enable('original', known);
            if (this.#cells.length) this.#arrange();
        } else this.#update();
        this.stage.invalidate();
    }

    #originalKnown = false;

    /** The surfaces that are shown now. */
    get visible(): Surface[] {
        return [...new Set(this.#cells.flatMap((cell) => cell.surfaces))];
    }

    setLayout(layout: Layout): void {
        this.layout = layout;
        this.#layoutChoice.value = layout;
        this.#swipe.hidden = layout !== 'swipe';
        this.#arrange();
        // On narrow screens, what was in front of the camera may be outside of a column.
        if (innerWidth < 720 && this.visible.some((s) => s.current)) this.#frame();
    }

    setMap(map: MapKind): void {
        if (map === 'error' && !this.original) {
            notify('There is no original to compare with.');
            setPressed(this.#heat, false);
            return;
        }
        this.map = map;
        setPressed(this.#heat, map === 'error');
        if (map !== 'weights') this.#select(-1);
        if (map !== 'groups' && map !== 'virtual')
            for (const kind of ['groups', 'virtual']) {
                const found = document.getElementById(`show-${kind}`);
                if (found) setPressed(found, false);
            }
        this.#update();
        this.recolour();
    }

    setWire(on: boolean): void {
        for (const surface of this.surfaces) surface.lines.visible = on;
        this.stage.invalidate();
    }

    setLook(look: string): void {
        this.#shared.base = this.#shared.colours(look);
        this.recolour();
    }

    showBones(on: boolean): void {
        if (!this.#bonesView) return;
        this.#bonesView.object.visible = on;
        if (on && this.#bonesNow) this.#bonesView.update(this.#bonesNow);
        const found = document.getElementById('show-bones');
        if (found) setPressed(found, on);
        this.stage.invalidate();
    }

    chooseBone(bone: number): void {
        this.#select(bone);
        if (bone >= 0) this.showBones(true);
        this.setMap(bone < 0 || !this.#scene.regions.index ? 'none' : 'weights');
        if (bone >= 0) this.#select(bone);
    }

    #select(bone: number): void {
        if (bone === this.#bone) return;
        this.#bone = bone;
        if (this.#bonesView) {
            this.#bonesView.selected = bone;
            this.#bonesView.colour();
        }
        this.#bonesPanel.choose(bone);
    }

    #showRegions(kind: 'groups'|'virtual'|'anchors', on: boolean): void {
        if (kind !== 'anchors') {
            this.setMap(on ? kind : 'none');
            document.getElementById(`show-${kind}`)!.setAttribute('aria-pressed', String(on));
            return;
        }
        if (this.#anchors) this.#anchors.visible = on;
        this.stage.invalidate();
    }

    #arrange(): void {
        const original = this.#originalKnown || !this.#scene.models.length ? this.original : null;
        const area = this.#area(), chosen = this.surfaces.find((s) => s.key === this.#subject.value)!;
        const shown = chosen === this.original && !original ? this.surfaces[0] : chosen;
        const against = shown === this.original ? this.surfaces.find((s) => s !== shown) ?? null :
                                                  original ?? this.surfaces.find((s) => s !== shown) ?? null;
        const all = this.surfaces.filter((s) => s !== this.original || original);
        this.#cells = cells(this.layout, area, all, shown, against, this.#split);
        for (const surface of this.surfaces) surface.ghost = this.layout === 'overlay' && surface === against && shown !== against;
        const top = document.getElementById('top')!.getBoundingClientRect().bottom;
        this.#labels.replaceChildren(...(this.layout === 'single' ? [] : this.#cells.map((cell, i) => {
            const label = el('span', {class: 'label', 'data-cell': i}, cell.label);
            const right = this.layout === 'swipe' && i === 1;
            label.style.left = right ? '' : `${cell.clip.x + 14}px`;
            if (right) label.style.right = `${innerWidth - cell.clip.x - cell.clip.width + 14}px`;
            label.style.top = `${Math.max(cell.clip.y, i < 3 ? top : 0) + 10}px`;
            return label;
        })));
        this.#swipe.style.left = `${area.x + this.#split * area.width}px`;
        this.#swipe.style.top = `${area.y}px`;
        this.#swipe.style.height = `${area.height}px`;
        this.#update();
        this.recolour();
    }

    /** Brings the vertices of everything that is visible up to date. */
    #update(): void {
        const wanted = new Set(this.visible);
        const compared = this.#originalKnown && this.original && this.#scene.models.length > 0;
        if (compared) wanted.add(this.original!).add(this.surfaces[0]);
        for (const surface of wanted) if (!surface.current) this.#compute(surface);
        this.errors = this.#scene.models.map((_, model) => {
            const surface = this.surfaces.find((s) => s.key === `model-${model}`)!;
            return compared && surface.current ? measure(surface.positions, this.original!.positions, this.#distances) : null;
        });
        this.#bonesNow = this.poser.bones ?? this.#scene.bones?.rest ?? null;
        if (this.#bonesView?.object.visible && this.#bonesNow) this.#bonesView.update(this.#bonesNow);
        if (this.map === 'error') this.recolour();
        this.#follow();
        this.#showNumbers();
    }

    #compute(surface: Surface): void {
        if (surface === this.original) {
            const first = this.surfaces.find((s) => s.key === 'model-0');
            if (first && !first.current) this.#compute(first);
            if (!this.poser.fillOriginal(surface.positions, first?.positions ?? surface.positions)) return;
            computeNormals(surface.positions, this.#scene.triangles, surface.normals);
        } else {
            const model = Number(surface.key.slice(6)), {deformer} = this.#scene.models[model];
            this.poser.fillModel(model);
            const start = performance.now();
            deformer.deform(deformer.bones, deformer.controls, {normals: true});
            if (model === 0) {
                this.times.push(performance.now() - start);
                if (this.times.length > 120) this.times.shift();
            }
        }
        surface.moved();
    }

    recolour(): void {
        const {regions} = this.#scene, base = this.#shared.base;
        const map = this.map === 'error' && !this.#originalKnown ? 'none' : this.map;
        for (const surface of this.visible) {
            const plain = map !== 'none' && !(map === 'error' && surface === this.original);
            if (!plain) surface.colours.set(base);
            else if (map === 'error') {
                measure(surface.positions, this.original!.positions, this.#distances);
                fillRamp(surface.colours, this.#distances, this.#legend.most, ERROR_RAMP);
            } else if (map === 'weights') this.#fillWeights(surface.colours);
            else fillNumbers(surface.colours, (map === 'groups' ? regions.groups : regions.virtual)!);
            surface.coloured(plain);
        }
        this.stage.evenLight = map !== 'none';
        if (map === 'error') this.#legend.showErrors();
        else if (map === 'weights') this.#legend.showWeights(this.#scene.bones!.names[this.#bone] ?? '');
        else this.#legend.hide();
        this.stage.invalidate();
    }

    #fillWeights(colours: Uint8Array): void {
        const {index, weight, shown} = this.#scene.regions, values = this.#distances;
        for (let v = 0; v < values.length; ++v) {
            let sum = 0;
            for (let k = 0; k < shown; ++k) if (index![v * shown + k] === this.#bone) sum += weight![v * shown + k];
            values[v] = sum / 255;
        }
        fillRamp(colours, values, 1, WEIGHT_RAMP);
    }

    // ---- camera and drawing --------------------------------------------------------------------

    /** What panels leave free of the window. */
    #area(): Rect {
        const narrow = innerWidth < 720, panel = document.getElementById('panel');
        const right = !narrow && panel && !panel.hidden ? panel.offsetWidth : 0;
        const sheet = narrow && panel && !panel.hidden ? panel : this.timeline.element;
        const bottom = sheet.hidden ? 0 : innerHeight - sheet.getBoundingClientRect().top;
        const y = isSmall() ? document.getElementById('top')!.getBoundingClientRect().bottom : 0;
        return {x: 0, y, width: Math.max(50, innerWidth - right), height: Math.max(50, innerHeight - bottom - y)};
    }

    #frame(first = false): void {
        const surface = this.visible.find((s) => s.current) ?? this.surfaces[0];
        const view = this.#cells[0].view, top = document.getElementById('top')!.getBoundingClientRect().bottom;
        const covered = Math.min(Math.max(0, top - view.y), view.height / 3);
        const free = {...view, y: view.y + covered, height: view.height - covered};
        this.stage.frame(surface.current ? surface.positions : this.#scene.rest, view, free,
            first ? new THREE.Vector3(0.42, 0.12, 1) : undefined);
    }

    #follow(): void {
        const bones = this.#bonesNow;
        if (!bones?.length || this.poser.posed) return;
        this.stage.follow(new THREE.Vector3(bones[3], bones[7], bones[11]), true);
    }

    #resize(): void {
        this.stage.resize(innerWidth, innerHeight);
        this.#arrange();
    }

    #draw(): void {
        this.stage.draw(this.#cells.map(({view, clip, surfaces}) => ({view, clip, show: surfaces.map((s) => s.object)})),
            this.surfaces.map((s) => s.object));
        this.#placeMark();
        const cell = this.#cells.find((c) => c.surfaces.some((s) => s.key === 'model-0'));
        this.#handles?.update(this.#bonesNow, this.#showHandles && !this.timeline.playing && cell && (this.map === 'none' || this.map === 'error') ? cell.view : null);
    }

    #placeMark(): void {
        const model = this.#scene.models.findIndex((_, i) => this.visible.some((s) => s.key === `model-${i}`));
        const error = this.errors[model];
        this.#mark.hidden = !(this.map === 'error' && error);
        if (this.#mark.hidden || !error) return;
        const surface = this.surfaces.find((s) => s.key === `model-${model}`)!;
        const cell = this.#cells.find((c) => c.surfaces.includes(surface))!;
        const world = this.stage.toWorld(new THREE.Vector3().fromArray(surface.positions, 3 * error.vertex));
        const {x, y, front} = this.stage.project(world, cell.view);
        const inside = front && x > cell.clip.x && x < cell.clip.x + cell.clip.width && y > 0 && y < cell.clip.y + cell.clip.height;
        this.#mark.hidden = !inside;
        this.#mark.classList.toggle('bare', cell.clip.width < 260);
        this.#mark.classList.toggle('left', x > cell.clip.x + cell.clip.width - 190);
        this.#mark.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
        this.#mark.dataset.text = `${lengthText(error.largest, this.#scene.unit)} at vertex ${error.vertex}`;
    }

    // ---- interface -----------------------------------------------------------------------------

    #build(): void {
        const tabs = [['pose', 'Pose', this.poser.panel.element], ['bones', 'Bones', this.#bonesPanel.element], ['about', 'About', this.#about()]] as const;
        const panel = el('aside', {id: 'panel'});
        const bar = el('div', {class: 'tabs', role: 'tablist'});
        const open = (name: string) => {
            for (const [key, , body] of tabs) {
                body.hidden = key !== name;
                bar.querySelector(`[data-tab=${key}]`)!.setAttribute('aria-selected', String(key === name));
            }
        };
        for (const [key, text] of tabs)
            bar.append(el('button', {type: 'button', role: 'tab', 'data-tab': key, id: `tab-${key}`, click: () => open(key)}, text));
        panel.append(bar, ...tabs.map(([, , body]) => body));
        open('pose');
        panel.hidden = isSmall();
        const tools = el('div', {class: 'tools'}, this.#heat,
            toggle('Wire', 'wire', 'Draw the edges of the polygons (W)', false, (on) => this.setWire(on)),
            this.#handles ? toggle('Handles', 'show-handles', 'Handles to drag (H)', true, (on) => {
                this.#showHandles = on;
                this.stage.invalidate();
            }) : '',
            button('Clay', 'look', 'Skin or clay', () => {
                const look = document.getElementById('look')!;
                this.setLook(look.textContent === 'Clay' ? 'clay' : 'skin');
                look.textContent = look.textContent === 'Clay' ? 'Skin' : 'Clay';
            }),
            button('Frame', 'frame', 'Fit the character into the window (F)', () => this.#frame()),
            button('Panel', 'toggle-panel', 'Show or hide the panel', () => {
                panel.hidden = !panel.hidden;
                this.#resize();
                if (isSmall()) this.#frame();
            }));
        this.#heat.disabled = !this.original || !this.#scene.models.length;
        this.#layoutChoice.element.hidden = this.surfaces.length < 2;
        this.#subject.element.hidden = this.surfaces.length < 2;
        document.body.append(
            this.#labels, this.#mark, this.#handles?.element ?? '', this.#swipe,
            el('header', {id: 'top'},
                el('div', {class: 'title'}, el('h1', {}, this.#scene.title), this.#readout),
                el('div', {class: 'bar'}, this.#subject.element, this.#layoutChoice.element, tools)),
            panel, this.#legend.element, this.timeline.element, this.#trouble, el('div', {id: 'notices'}));
        if (!this.#scene.clips.length && !this.poser.sliders.length)
            this.#showTrouble('There is no motion in this file. Add a clip with --clip, or poses with --motion.');
    }

    #about(): HTMLElement {
        const scene = this.#scene, rows: [string, string][] = [
            ['Mesh', `${scene.vertexCount.toLocaleString('en')} vertices, ${scene.polygonCount.toLocaleString('en')} polygons, ${
                digits(scene.size)} ${scene.unit} high`],
            ...scene.models.map(({label, bytes, storage, derived, deformer}): [string, string] =>
                [label, derived ? 'the skin of the stand-in without its correctives' : `${sizeText(bytes)}, ${storage}, method ${deformer.method}`]),
        ];
        if (scene.bones) rows.push(['Bones', String(scene.bones.names.length)]);
        if (scene.posing) {
            const {mean, largest} = scene.posing.error;
            rows.push(['Posing', `${scene.posing.joints.length} joints; helper bones move vertices by ${lengthText(mean, scene.unit)} on average and ${
                lengthText(largest, scene.unit)} at most from where the original puts them. ${scene.posing.notes.join('. ')}`]);
        }
        if (scene.live) rows.push(['Original', `the rig ${scene.live.rig}, evaluated by this computer`]);
        for (const {name, original, frames, of} of scene.clips) {
            const cut = frames < of ? `, the first of ${of}` : '';
            const stored = original ? `; original stored to ${lengthText(original.mean, scene.unit)} on average, ${
                lengthText(original.largest, scene.unit)} at most` : '';
            rows.push([`Clip ${name}`, `${frames} frames${cut}${stored}`]);
        }
        const simd = scene.models[0]?.deformer.instructionSet;
        if (simd) rows.push(['Runtime', `WebAssembly, ${simd}`]);
        return el('div', {class: 'tab-body', id: 'about-panel'},
            el('dl', {}, ...rows.flatMap(([name, text]) => [el('dt', {}, name), el('dd', {}, text)])),
            el('p', {class: 'hint'}, 'Drag to orbit, right-drag or two fingers to pan, wheel or pinch to zoom. Keys: space play, E error, W wire, B bones, H handles, F frame, 1 to 4 layouts.'));
    }

    #showNumbers(): void {
        const model = this.#scene.models[0], parts: string[] = [];
        if (model) {
            const sorted = [...this.times].sort((a, b) => a - b), median = sorted[sorted.length >> 1];
            if (median !== undefined) parts.push(`${median < 0.1 ? '< 0.1' : digits(median)} ms a pose`);
            parts.push(sizeText(model.bytes));
        } else parts.push(`${this.#scene.vertexCount.toLocaleString('en')} vertices`);
        const error = this.errors[0];
        if (error) parts.push(`error ${lengthText(error.mean, this.#scene.unit)} mean, ${lengthText(error.largest, this.#scene.unit)} largest`);
        else if (this.original && model && !this.#originalKnown) parts.push('original not known for this pose');
        const name = model && this.#scene.models.length > 1 ? `${model.label}: ` : '';
        this.#readout.textContent = name + parts.join(' · ');
    }

    #showTrouble(text: string): void {
        this.#trouble.textContent = text;
        this.#trouble.hidden = !text;
    }

    #defaultScale(): number {
        const largest = this.#scene.clips.flatMap((clip) => clip.errors.slice(0, 1).map((e) => e.largest.reduce((a, b) => Math.max(a, b), 0)));
        return niceAbove(Math.max(0, ...largest) / 3 || this.#scene.size / 500);
    }

    /** Where the head of a bone is on the page. */
    bonePlace(bone: number): [number, number] {
        const bones = this.#bonesNow!, at = 12 * bone;
        const world = this.stage.toWorld(new THREE.Vector3(bones[at + 3], bones[at + 7], bones[at + 11]));
        const {x, y} = this.stage.project(world, this.#cells[0].view);
        return [x, y];
    }

    #addAnchors(): void {
        const {anchors} = this.#scene.regions, first = this.surfaces[0];
        if (!anchors || !first) return;
        const geometry = new THREE.BufferGeometry();
        geometry.setAttribute('position', first.mesh.geometry.getAttribute('position'));
        geometry.setIndex(Array.from(anchors));
        this.#anchors = new THREE.Points(geometry, new THREE.PointsMaterial({color: 0xffb454, size: 5, sizeAttenuation: false, depthTest: false}));
        this.#anchors.frustumCulled = false;
        this.#anchors.visible = false;
        this.#anchors.renderOrder = 5;
        first.object.add(this.#anchors);
    }

    #listen(): void {
        let down: {x: number, y: number}|null = null;
        this.#canvas.addEventListener('pointerdown', (event) => { down = {x: event.clientX, y: event.clientY}; });
        this.#canvas.addEventListener('pointerup', (event) => {
            if (down && Math.hypot(event.clientX - down.x, event.clientY - down.y) < 4) this.#click(event);
            down = null;
        });
        this.#canvas.addEventListener('dblclick', () => this.#frame());
        const drag = (event: PointerEvent) => {
            const area = this.#area();
            this.#split = Math.min(0.98, Math.max(0.02, (event.clientX - area.x) / area.width));
            this.#arrange();
        };
        this.#swipe.addEventListener('pointerdown', (event) => this.#swipe.setPointerCapture(event.pointerId));
        this.#swipe.addEventListener('pointermove', (event) => {
            if (this.#swipe.hasPointerCapture(event.pointerId)) drag(event);
        });
        addEventListener('keydown', (event) => this.#key(event));
    }

    #click(event: PointerEvent): void {
        const cell = this.#cells.find(({clip}) => event.clientX >= clip.x && event.clientX < clip.x + clip.width &&
            event.clientY >= clip.y && event.clientY < clip.y + clip.height);
        if (!cell || !this.#bonesView?.object.visible) return;
        this.chooseBone(this.#bonesView.pick(this.stage.ray(event.clientX, event.clientY, cell.view)));
    }

    #key(event: KeyboardEvent): void {
        if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
        const undo = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'z';
        if (undo) {
            event.preventDefault();
            if (event.shiftKey) this.poser.redo();
            else this.poser.undo();
            return;
        }
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const press = (id: string) => () => document.getElementById(id)?.click();
        const layouts: Layout[] = ['single', 'side', 'swipe', 'overlay'];
        const action = ({
            ' ': () => this.timeline.toggle(), e: press('heat'), w: press('wire'), h: press('show-handles'), b: press('show-bones'), f: press('frame'),
            1: () => this.setLayout(layouts[0]), 2: () => this.setLayout(layouts[1]),
            3: () => this.setLayout(layouts[2]), 4: () => this.setLayout(layouts[3]),
        } as Record<string, () => void>)[event.key.toLowerCase()];
        if (!action || (event.key === ' ' && event.target instanceof HTMLButtonElement)) return;
        event.preventDefault();
        action();
    }
}

/** Whether this is the screen of a phone, upright or across; as in viewer.css. */
function isSmall(): boolean {
    return innerWidth < 720 || innerHeight < 480;
}

/** Colours vertices by a number each; negative: grey. */
function fillNumbers(colours: Uint8Array, numbers: Int32Array): void {
    const made = new Map<number, [number, number, number]>();
    numbers.forEach((number, v) => {
        let colour = made.get(number);
        if (!colour) made.set(number, colour = number < 0 ? [110, 112, 116] : distinct(number));
        colours.set(colour, 3 * v);
    });
}
