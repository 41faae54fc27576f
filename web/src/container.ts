// Reads the container of a scene: safetensors, with whole numbers as planes of bytes.
// src/understudy/viewer/packing.py is the writer.

type Kind = 'U8'|'I8'|'U16'|'I16'|'U32'|'I32'|'F16'|'F32'|'F64'|'BOOL'|'I64';

interface Entry {
    dtype: Kind;
    shape: number[];
    data_offsets: [number, number];
}

interface Packing {
    shape?: number[];
    order?: number;
    length?: number;
}

/** What is wrong with a scene, in words for the user. */
export class SceneError extends Error {}

export class Container {
    readonly about: any;
    #entries: Record<string, Entry> = {};
    #packed: Record<string, Packing>;
    #bytes: Uint8Array;
    #start: number;

    /**
     * @param metadata  the key of the metadata that has the description as JSON
     */
    constructor(bytes: Uint8Array, metadata = 'scene') {
        this.#bytes = bytes;
        if (bytes.length < 9) throw new SceneError('The scene is empty.');
        const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
        const length = Number(view.getBigUint64(0, true));
        if (!(length <= bytes.length - 8)) throw new SceneError('The scene is incomplete.');
        let header: any;
        try {
            header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
            this.about = JSON.parse(header.__metadata__[metadata]);
        } catch {
            throw new SceneError('The scene cannot be read: its header is damaged.');
        }
        delete header.__metadata__;
        this.#entries = header;
        this.#packed = this.about.packed ?? {};
        this.#start = 8 + length;
    }

    has(name: string): boolean {
        return name in this.#entries;
    }

    /** Length along each axis. */
    shape(name: string): number[] {
        return this.#packed[name]?.shape ?? this.#entry(name).shape;
    }

    floats(name: string): Float32Array {
        const raw = this.#raw(name);
        return new Float32Array(raw.buffer, 0, raw.length / 4);
    }

    indices(name: string): Uint32Array {
        const raw = this.#raw(name);
        return new Uint32Array(raw.buffer, 0, raw.length / 4);
    }

    /** An array as it is; null: there is none, or its type is none of these. */
    numbers(name: string): Float32Array|Float64Array|Int32Array|null {
        const kinds: Partial<Record<Kind, any>> = {F32: Float32Array, F64: Float64Array, I32: Int32Array};
        const kind = this.has(name) ? kinds[this.#entry(name).dtype] : undefined;
        return kind ? new kind(this.#raw(name).buffer) : null;
    }

    /** A file that was stored as two planes of bytes. */
    file(name: string): Uint8Array {
        const planes = this.#raw(name), half = planes.length / 2;
        const length = this.#packed[name].length ?? planes.length;
        const bytes = new Uint8Array(planes.length);
        for (let i = 0; i < half; ++i) {
            bytes[2 * i] = planes[i];
            bytes[2 * i + 1] = planes[half + i];
        }
        return bytes.subarray(0, length);
    }

    /** Whole numbers that were stored as differences and planes of bytes. */
    whole(name: string): Int32Array {
        const {shape, order = 0} = this.#packed[name] ?? {};
        if (!shape) throw new SceneError(`The scene has no numbers ${name}.`);
        const width = this.#entry(name).shape[0];
        const planes = this.#raw(name);
        const count = planes.length / width;
        const values = new Int32Array(count);
        for (let byte = 0; byte < width; ++byte) {
            const start = byte * count, shift = 8 * byte;
            for (let i = 0; i < count; ++i) values[i] |= planes[start + i] << shift;
        }
        // The lowest bit is the sign.
        for (let i = 0; i < count; ++i) values[i] = (values[i] >>> 1) ^ -(values[i] & 1);
        const row = shape[0] ? count / shape[0] : 0;
        for (let pass = 0; pass < order; ++pass)
            for (let i = row; i < count; ++i) values[i] += values[i - row];
        return values;
    }

    #entry(name: string): Entry {
        const entry = this.#entries[name];
        if (!entry) throw new SceneError(`The scene has no ${name}.`);
        return entry;
    }

    /** A copy of the bytes of an array, aligned. */
    #raw(name: string): Uint8Array<ArrayBuffer> {
        const [from, to] = this.#entry(name).data_offsets;
        const raw = this.#bytes.slice(this.#start + from, this.#start + to);
        if (raw.length !== to - from) throw new SceneError('The scene is incomplete.');
        return raw as Uint8Array<ArrayBuffer>;
    }
}
