// `Stage`: renderer, light, floor and camera. It draws passes: rectangles of the window, each with
// some of the surfaces.

import * as THREE from 'three';
import {OrbitControls} from 'three/addons/controls/OrbitControls.js';
import type {Scene} from './scene';
import {keyLight} from './surface';

/** A rectangle in pixels of the page, from the top left corner. */
export interface Rect {
    x: number;
    y: number;
    width: number;
    height: number;
}

export interface Pass {
    /** What the camera fills. */
    view: Rect;
    /** What is drawn of it. */
    clip: Rect;
    show: THREE.Object3D[];
}

const HEIGHT = 2;  // of the character on the stage: lights and shadows are set up for it

export class Stage {
    readonly renderer: THREE.WebGLRenderer;
    readonly camera = new THREE.PerspectiveCamera(30, 1, 0.05, 60);
    readonly controls: OrbitControls;
    /** Model space: its children have the character's own axes and unit. */
    readonly model = new THREE.Group();
    #scene = new THREE.Scene();
    #rig = new THREE.Group();  // lights and floor, below the character
    #key: THREE.DirectionalLight;
    #sky: THREE.HemisphereLight;
    #scale: number;
    #follow: THREE.Vector3|null = null;  // where the character was
    #centre = new THREE.Vector3();
    #dirty = true;

    constructor(canvas: HTMLCanvasElement, scene: Scene) {
        this.renderer = new THREE.WebGLRenderer({canvas, antialias: true, alpha: true, powerPreference: 'high-performance'});
        const renderer = this.renderer;
        renderer.setPixelRatio(Math.min(devicePixelRatio || 1, 2));
        renderer.shadowMap.enabled = true;
        renderer.shadowMap.type = THREE.VSMShadowMap;
        renderer.toneMapping = THREE.NeutralToneMapping;
        renderer.toneMappingExposure = 1.0;
        renderer.setClearColor(0, 0);
        renderer.autoClear = false;

        const box = new THREE.Box3().setFromArray(scene.rest);
        const extent = box.getSize(new THREE.Vector3());
        this.#scale = HEIGHT / (Math.max(extent.x, extent.y, extent.z) || 1);
        const scale = this.#scale;
        this.model.scale.set(scene.leftHanded ? -scale : scale, scale, scale);
        if (scene.up === 'Z') this.model.rotation.x = -Math.PI / 2;
        this.#scene.add(this.model, this.#rig);
        this.model.updateMatrixWorld(true);

        box.applyMatrix4(this.model.matrixWorld);
        this.#key = this.#light();
        this.#sky = new THREE.HemisphereLight(0xd6e2f2, 0x6b5a50);
        this.#rig.add(this.#sky);
        this.evenLight = false;
        this.#floor(box.min.y);
        const middle = box.getCenter(new THREE.Vector3());
        this.#rig.position.set(middle.x, 0, middle.z);
        this.#key.target.position.set(0, middle.y, 0);
        this.#key.position.add(new THREE.Vector3(0, middle.y, 0));

        this.controls = new OrbitControls(this.camera, canvas);
        this.controls.enableDamping = true;
        this.controls.dampingFactor = 0.12;
        this.controls.minDistance = 0.15;
        this.controls.maxDistance = 25;
        this.controls.zoomToCursor = true;
        this.controls.addEventListener('change', () => this.invalidate());
    }

    #light(): THREE.DirectionalLight {
        const key = new THREE.DirectionalLight(0xfff0de, 2.9);
        key.position.set(-2.1, 4.0, 2.6);
        key.castShadow = true;
        key.shadow.mapSize.set(512, 512);
        key.shadow.radius = 3.5;
        key.shadow.blurSamples = 7;
        key.shadow.bias = -0.0004;
        key.shadow.normalBias = 0.01;
        const camera = key.shadow.camera;
        camera.left = camera.bottom = -1.9;
        camera.right = camera.top = 1.9;
        camera.near = 0.5;
        camera.far = 9;
        const fill = new THREE.DirectionalLight(0xcfe0ff, 0.55);
        fill.position.set(3.5, 0.8, 2);
        const rim = new THREE.DirectionalLight(0xe6efff, 1.9);
        rim.position.set(2.4, 2.8, -3.4);
        this.#rig.add(key, key.target, fill, rim);
        keyLight.value.copy(key.position).normalize();
        return key;
    }

    #floor(height: number): void {
        const floor = new THREE.Mesh(
            new THREE.CircleGeometry(5, 64), new THREE.ShaderMaterial({
                transparent: true,
                depthWrite: false,
                vertexShader: 'varying vec2 at; void main() { at = position.xy; gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0); }',
                fragmentShader: `varying vec2 at;
                    void main() {
                        float r = length(at);
                        float light = exp(-r * r * 0.42);
                        vec2 cell = abs(fract(at * 2.0 - 0.5) - 0.5) / (fwidth(at * 2.0) + 1e-5);
                        float line = 1.0 - min(min(cell.x, cell.y), 1.0);
                        float fade = smoothstep(3.6, 0.6, r);
                        gl_FragColor = vec4(vec3(0.62, 0.66, 0.72), 0.20 * light + 0.11 * line * fade);
                        #include <colorspace_fragment>
                    }`,
            }));
        floor.rotation.x = -Math.PI / 2;
        floor.position.y = height - 0.002;
        floor.renderOrder = -2;
        const shadow = new THREE.Mesh(new THREE.CircleGeometry(3, 48), new THREE.ShadowMaterial({opacity: 0.42}));
        shadow.rotation.x = -Math.PI / 2;
        shadow.position.y = height;
        shadow.receiveShadow = true;
        shadow.renderOrder = -1;
        this.#rig.add(floor, shadow);
    }

    /** Light for maps: even and with faint shadows, so that colours are readable everywhere. */
    set evenLight(on: boolean) {
        this.#sky.intensity = on ? 1.9 : 0.8;
        this.#key.intensity = on ? 1.5 : 2.9;
        this.#key.shadow.intensity = on ? 0.35 : 0.9;
        this.invalidate();
    }

    /** Draw again with the next frame of the display. */
    invalidate(): void {
        this.#dirty = true;
    }

    /** Whether something changed since the last call; moves the camera. */
    needsDrawing(): boolean {
        this.controls.update();
        const dirty = this.#dirty;
        this.#dirty = false;
        return dirty;
    }

    resize(width: number, height: number): void {
        this.renderer.setSize(width, height, false);
        this.invalidate();
    }

    /** A point of the model in the world. */
    toWorld(point: THREE.Vector3): THREE.Vector3 {
        return point.applyMatrix4(this.model.matrixWorld);
    }

    /**
     * Puts the camera in front of some positions (V,3) of the model.
     *
     * @param view  what the camera fills
     * @param free  the part of it that nothing covers
     */
    frame(positions: Float32Array, view: Rect, free: Rect, direction?: THREE.Vector3): void {
        const box = new THREE.Box3().setFromArray(positions).applyMatrix4(this.model.matrixWorld);
        const middle = box.getCenter(new THREE.Vector3());
        const way = direction ?? this.camera.position.clone().sub(this.controls.target);
        if (way.lengthSq() < 1e-9) way.set(0.28, 0.1, 1);
        way.normalize();
        // Distance at which the eight corners are inside the picture.
        const up = new THREE.Vector3(0, 1, 0);
        const right = new THREE.Vector3().crossVectors(up, way).normalize();
        const over = new THREE.Vector3().crossVectors(way, right);
        const slope = Math.tan(this.camera.fov * Math.PI / 360) * 0.94 * free.height / view.height;
        const aspect = free.width / free.height;
        let distance = 0.2;
        for (let corner = 0; corner < 8; ++corner) {
            const p = new THREE.Vector3(
                corner & 1 ? box.max.x : box.min.x, corner & 2 ? box.max.y : box.min.y, corner & 4 ? box.max.z : box.min.z).sub(middle);
            const reach = Math.max(Math.abs(p.dot(over)), Math.abs(p.dot(right)) / aspect) / slope;
            distance = Math.max(distance, reach + p.dot(way));
        }
        // The middle of the free part is below or above the middle of the view.
        const shift = (view.y + view.height / 2 - free.y - free.height / 2) / view.height;
        const tall = 2 * distance * Math.tan(this.camera.fov * Math.PI / 360);
        this.#centre.copy(middle);
        middle.addScaledVector(over, -shift * tall);
        this.controls.target.copy(middle);
        this.camera.position.copy(middle).addScaledVector(way, distance);
        this.#rig.position.set(this.#centre.x, 0, this.#centre.z);
        this.controls.update();
        this.invalidate();
    }

    /** Moves camera, light and floor with the character: `middle` in model space. */
    follow(middle: THREE.Vector3, camera: boolean): void {
        const now = this.toWorld(middle);
        const step = now.clone().sub(this.#follow ?? now);
        step.y = 0;
        this.#follow = now;
        this.#rig.position.add(step);
        if (camera) {
            this.camera.position.add(step);
            this.controls.target.add(step);
        }
    }

    draw(passes: Pass[], all: THREE.Object3D[]): void {
        const renderer = this.renderer, size = renderer.getSize(new THREE.Vector2());
        renderer.setScissorTest(false);
        renderer.clear();
        renderer.setScissorTest(true);
        for (const {view, clip, show} of passes) {
            for (const object of all) object.visible = show.includes(object);
            this.camera.aspect = view.width / view.height;
            this.camera.updateProjectionMatrix();
            renderer.setViewport(view.x, size.y - view.y - view.height, view.width, view.height);
            renderer.setScissor(clip.x, size.y - clip.y - clip.height, clip.width, clip.height);
            renderer.render(this.#scene, this.camera);
        }
    }

    /** A ray through a point of the page, given the rectangle the camera fills there. */
    ray(x: number, y: number, view: Rect): THREE.Raycaster {
        const caster = new THREE.Raycaster();
        this.camera.aspect = view.width / view.height;
        this.camera.updateProjectionMatrix();
        const place = new THREE.Vector2(2 * (x - view.x) / view.width - 1, 1 - 2 * (y - view.y) / view.height);
        caster.setFromCamera(place, this.camera);
        return caster;
    }

    /** Where a point of the world is on the page. */
    project(point: THREE.Vector3, view: Rect): {x: number, y: number, front: boolean} {
        this.camera.aspect = view.width / view.height;
        this.camera.updateProjectionMatrix();
        this.camera.updateMatrixWorld();
        const p = point.clone().project(this.camera);
        return {x: view.x + (p.x + 1) / 2 * view.width, y: view.y + (1 - p.y) / 2 * view.height, front: p.z < 1};
    }
}
