// Undo and redo of poses.

export class History<T> {
    #past: T[] = [];
    #future: T[] = [];

    /** Remembers the state before a change. */
    push(state: T): void {
        this.#past.push(state);
        if (this.#past.length > 200) this.#past.shift();
        this.#future = [];
    }

    /** The state before the last change; `now` can be redone. */
    undo(now: T): T|null {
        const state = this.#past.pop();
        if (state === undefined) return null;
        this.#future.push(now);
        return state;
    }

    redo(now: T): T|null {
        const state = this.#future.pop();
        if (state === undefined) return null;
        this.#past.push(now);
        return state;
    }

    get canUndo(): boolean {
        return this.#past.length > 0;
    }

    get canRedo(): boolean {
        return this.#future.length > 0;
    }
}
