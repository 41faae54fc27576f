// Prints the report of Khronos' glTF validator as JSON: node validate_glb.mjs FILE
import { readFileSync } from "node:fs";
import validator from "gltf-validator";

const bytes = new Uint8Array(readFileSync(process.argv[2]));
const report = await validator.validateBytes(bytes, { maxIssues: 1000 });
console.log(JSON.stringify({ issues: report.issues, info: report.info }));
