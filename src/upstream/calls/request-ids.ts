import { ID_BLOCK } from '../../model/shared-upstream-sessions.ts';

/**
 * The ids of a connection's requests, one after the other. Whoever goes on with the same session of the server's begins at
 * another block; halfway through each block the next one has to be kept for this connection.
 */
export class RequestIds {
  readonly #halfway: () => void;
  #last = 0;
  #tellAt = middleOf(0);

  /** `halfway`: these ids go on into the next block before long. */
  constructor(halfway: () => void) {
    this.#halfway = halfway;
  }

  get last(): number {
    return this.#last;
  }

  next(): number {
    const id = ++this.#last;
    if (id === this.#tellAt) {
      this.#tellAt = middleOf(id + ID_BLOCK);
      this.#halfway();
    }
    return id;
  }

  /** They begin behind this one from now on. */
  after(id: number): void {
    this.#last = id;
    this.#tellAt = Math.max(id + 1, middleOf(id));
  }
}

/** Of the block that the id is in. */
function middleOf(id: number): number {
  return (Math.floor(id / ID_BLOCK) + 0.5) * ID_BLOCK;
}
