// Evaluates a glTF file with three.js, without a GPU.
//
//   node evaluate_glb.mjs FILE OUT REQUEST.json
//
// REQUEST: [{"clip": name or null, "times": [seconds, ...]}, ...]; null: without animation.
// OUT.json: {"meshes": [{node, mesh, primitive, name, vertices, used}], "clips": [names]};
// OUT.bin: float32, for each mesh its attribute _VERTEX (or -1), then whether a triangle uses the
// vertex, then its positions for every request and time, (times, vertices, 3).
import { readFileSync, writeFileSync } from "node:fs";
import {
  AnimationMixer, LoopOnce, Matrix4, Mesh, SkinnedMesh, Texture, Vector3, Vector4,
} from "three";
import { GLTFLoader } from "three/examples/jsm/loaders/GLTFLoader.js";

const [file, out, requestFile] = process.argv.slice(2);
const requests = JSON.parse(readFileSync(requestFile, "utf8"));

globalThis.self ??= globalThis;
globalThis.ProgressEvent ??= class extends Event {}; // a browser's, for data: URIs
// three.js has four influences and scales them to sum to one. Of a mesh with eight, the second four
// are added below, so the first four must keep their weights.
const normalise = SkinnedMesh.prototype.normalizeSkinWeights;
SkinnedMesh.prototype.normalizeSkinWeights = function () {
  if (!this.geometry.attributes.joints_1) normalise.call(this);
};

const loader = new GLTFLoader();
// Pictures need a browser, and nothing here looks at them.
loader.register(() => ({ name: "no textures", loadTexture: () => Promise.resolve(new Texture()) }));
const bytes = readFileSync(file);
const data = bytes.subarray(0, 4).toString() === "glTF"
  ? bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)
  : bytes.toString("utf8");
const gltf = await loader.parseAsync(data, "");

const meshes = [];
gltf.scene.traverse((object) => { if (object instanceof Mesh) meshes.push(object); });

function nodeOf(object) {
  for (let at = object; at; at = at.parent) {
    const found = gltf.parser.associations.get(at);
    if (found && found.nodes !== undefined) return found.nodes;
  }
  return -1;
}

const result = [];
const about = meshes.map((mesh) => {
  const found = gltf.parser.associations.get(mesh) ?? {};
  const node = nodeOf(mesh);
  return {
    node,
    mesh: found.meshes ?? -1,
    primitive: found.primitives ?? 0,
    name: gltf.parser.json.nodes[node]?.name ?? "",
    vertices: mesh.geometry.attributes.position.count,
  };
});

const joint = new Vector4(), weight = new Vector4(), matrix = new Matrix4();
const moved = new Vector3(), start = new Vector3(), sum = new Vector3();
function position(mesh, vertex, target) {
  const more = mesh.geometry.attributes.joints_1;
  if (!mesh.isSkinnedMesh || !more) return mesh.getVertexPosition(vertex, target);
  Mesh.prototype.getVertexPosition.call(mesh, vertex, start);
  start.applyMatrix4(mesh.bindMatrix);
  sum.set(0, 0, 0);
  const { skinIndex, skinWeight, weights_1 } = mesh.geometry.attributes;
  for (const [joints, weights] of [[skinIndex, skinWeight], [more, weights_1]]) {
    joint.fromBufferAttribute(joints, vertex);
    weight.fromBufferAttribute(weights, vertex);
    for (let k = 0; k < 4; k++) {
      const amount = weight.getComponent(k);
      if (amount === 0) continue;
      const bone = joint.getComponent(k);
      matrix.multiplyMatrices(mesh.skeleton.bones[bone].matrixWorld, mesh.skeleton.boneInverses[bone]);
      sum.addScaledVector(moved.copy(start).applyMatrix4(matrix), amount);
    }
  }
  return target.copy(sum).applyMatrix4(mesh.bindMatrixInverse);
}

for (const mesh of meshes) {
  const { attributes, index } = mesh.geometry;
  const count = attributes.position.count;
  const numbers = new Float32Array(count).fill(-1), used = new Float32Array(count);
  const own = attributes._vertex;
  for (let k = 0; k < count; k++) if (own) numbers[k] = own.getX(k);
  if (index) for (let k = 0; k < index.count; k++) used[index.getX(k)] = 1;
  else used.fill(1);
  result.push(numbers, used);
}

const point = new Vector3();
const frames = meshes.map(() => []);
for (const { clip, times } of requests) {
  const mixer = new AnimationMixer(gltf.scene);
  if (clip !== null) {
    const found = gltf.animations.find((animation) => animation.name === clip)
      ?? gltf.animations[Number(clip.replace("animation_", ""))];
    if (!found) throw new Error(`three.js knows no clip ${clip}`);
    const action = mixer.clipAction(found).setLoop(LoopOnce, 1);
    action.clampWhenFinished = true;
    action.play();
  }
  for (const time of times) {
    mixer.setTime(time);
    gltf.scene.updateMatrixWorld(true);
    meshes.forEach((mesh, number) => {
      if (mesh.isSkinnedMesh) mesh.skeleton.update();
      const count = mesh.geometry.attributes.position.count;
      const positions = new Float32Array(3 * count);
      for (let k = 0; k < count; k++) {
        position(mesh, k, point).applyMatrix4(mesh.matrixWorld).toArray(positions, 3 * k);
      }
      frames[number].push(positions);
    });
  }
  mixer.stopAllAction();
}
meshes.forEach((_, number) => result.push(...frames[number]));
writeFileSync(`${out}.json`, JSON.stringify({
  meshes: about, clips: gltf.animations.map((animation) => animation.name),
}));
writeFileSync(`${out}.bin`, Buffer.concat(result.map((a) => Buffer.from(a.buffer))));
