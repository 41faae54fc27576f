// Handles on the character: drag one, and its hand, foot, head or pelvis follows.

import * as THREE from 'three';
import {el} from './dom';
import type {PosingSkeleton} from './ik';
import type {Rect, Stage} from './stage';

export interface HandleActions {
    grab(handle: number): void;
    /** target: in model space. */
    drag(handle: number, target: [number, number, number]): void;
    release(handle: number): void;
}

export class Handles {
    readonly element = el('div', {id: 'handles'});
    #dots: HTMLElement[] = [];
    #posing: PosingSkeleton;
    #stage: Stage;
    #view: Rect = {x: 0, y: 0, width: 1, height: 1};
    #pending: (() => void)|null = null;

    constructor(posing: PosingSkeleton, stage: Stage, actions: HandleActions) {
        this.#posing = posing;
        this.#stage = stage;
        posing.handles.forEach(({name, role}, handle) => {
            const dot = el('div', {class: `handle ${role}`, title: `Drag: ${name}`, 'data-handle': name});
            this.#dots.push(dot);
            this.element.append(dot);
            this.#listen(dot, handle, actions);
        });
    }

    #listen(dot: HTMLElement, handle: number, actions: HandleActions): void {
        const plane = new THREE.Plane(), offset = new THREE.Vector2(), point = new THREE.Vector3();
        const target = (event: PointerEvent): [number, number, number]|null => {
            const ray = this.#stage.ray(event.clientX + offset.x, event.clientY + offset.y, this.#view).ray;
            if (!ray.intersectPlane(plane, point)) return null;
            const own = this.#stage.model.worldToLocal(point.clone());
            return [own.x, own.y, own.z];
        };
        dot.addEventListener('pointerdown', (event) => {
            event.preventDefault();
            dot.setPointerCapture(event.pointerId);
            dot.classList.add('held');
            actions.grab(handle);
            const world = this.#place(handle), at = this.#stage.project(world, this.#view);
            offset.set(at.x - event.clientX, at.y - event.clientY);
            plane.setFromNormalAndCoplanarPoint(this.#stage.camera.getWorldDirection(new THREE.Vector3()), world);
        });
        dot.addEventListener('pointermove', (event) => {
            if (!dot.hasPointerCapture(event.pointerId)) return;
            const to = target(event);
            if (!to) return;
            // Events may come faster than the display; the last one before a frame counts.
            const first = !this.#pending;
            this.#pending = () => actions.drag(handle, to);
            if (first) requestAnimationFrame(() => this.#flush());
        });
        const end = (event: PointerEvent) => {
            if (!dot.classList.contains('held')) return;
            this.#flush();
            dot.classList.remove('held');
            if (dot.hasPointerCapture(event.pointerId)) dot.releasePointerCapture(event.pointerId);
            actions.release(handle);
        };
        dot.addEventListener('pointerup', end);
        dot.addEventListener('pointercancel', end);
    }

    #flush(): void {
        const work = this.#pending;
        this.#pending = null;
        work?.();
    }

    #bones: Float64Array|null = null;

    #place(handle: number): THREE.Vector3 {
        const {bone} = this.#posing.handles[handle], bones = this.#bones!;
        return this.#stage.toWorld(new THREE.Vector3(bones[12 * bone + 3], bones[12 * bone + 7], bones[12 * bone + 11]));
    }

    /** Moves the handles: bones (B,12), in the cell that shows the stand-in. */
    update(bones: Float64Array|null, view: Rect|null): void {
        this.element.hidden = !bones || !view;
        if (!bones || !view) return;
        this.#bones = bones;
        this.#view = view;
        this.#dots.forEach((dot, handle) => {
            const {x, y, front} = this.#stage.project(this.#place(handle), view);
            dot.hidden = !front || x < view.x || x > view.x + view.width;
            dot.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
        });
    }
}
