import type { Hello } from '../../model/server-catalog.ts';

/**
 * What a server says of itself is the same for all its connections, nearly always: they have it together. Each of thousands
 * would otherwise keep its own, and with it all of the memory that it was read into, of which it is a small part.
 */
export class LastHello {
  #last: Hello | null = null;

  /** An equal one. */
  of(hello: Hello): Hello {
    const last = this.#last;
    if (last?.era === hello.era && last.revision === hello.revision && last.result.equals(hello.result)) return last;
    this.#last = hello;
    return hello;
  }
}
