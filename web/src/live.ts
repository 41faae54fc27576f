// The live rig behind the server: control values go out, bones and the original's vertices return.

import {Container} from './container';

export interface Evaluated {
    bones: Float64Array|null;
    original: Float32Array;
}

export class LiveRig {
    #token: string;
    #next: {values: number[], done: (result: Evaluated|null) => void}|null = null;
    #busy = false;
    /** Called with a message when the server stops answering, with '' when it answers again. */
    onTrouble: (text: string) => void = () => {};

    constructor(token: string) {
        this.#token = token;
    }

    /**
     * The pose at some control values; null: newer values came in before these were sent, or the
     * server did not answer.
     */
    evaluate(values: ArrayLike<number>): Promise<Evaluated|null> {
        return new Promise((done) => {
            this.#next?.done(null);
            this.#next = {values: Array.from(values), done};
            if (!this.#busy) void this.#run();
        });
    }

    async #run(): Promise<void> {
        this.#busy = true;
        while (this.#next) {
            const {values, done} = this.#next;
            this.#next = null;
            done(await this.#ask(values));
        }
        this.#busy = false;
    }

    async #ask(values: number[]): Promise<Evaluated|null> {
        try {
            const response = await fetch('pose', {
                method: 'POST',
                headers: {'Content-Type': 'application/json', 'X-Understudy-Token': this.#token},
                body: JSON.stringify({controls: values}),
            });
            if (!response.ok) {
                this.onTrouble(`The rig: ${await response.text()}`);
                return null;
            }
            const reply = new Container(new Uint8Array(await response.arrayBuffer()));
            this.onTrouble('');
            return {
                bones: reply.has('bones') ? Float64Array.from(reply.floats('bones')) : null,
                original: reply.floats('original'),
            };
        } catch {
            this.onTrouble('The server does not answer. Start `understudy view` again and reload.');
            return null;
        }
    }
}
