import type { HttpClientPort } from '../../http/client/client-port.ts';

interface Shared {
  readonly client: HttpClientPort;
  leases: number;
}

/**
 * One pool of kept connections for all transports of a server, however many sessions it has. A lease's `close` gives
 * it back, nothing more: its holder has ended its own requests. The pool is closed with its last lease.
 */
export class HttpClientShare {
  readonly #shared = new Map<string, Shared>();

  /** `key` names what the client is made of (a server's connection digest); `open` makes it where there is none. */
  lease(key: string, open: () => HttpClientPort): HttpClientPort {
    let shared = this.#shared.get(key);
    if (shared === undefined) {
      shared = { client: open(), leases: 0 };
      this.#shared.set(key, shared);
    }
    const held = shared;
    held.leases++;
    let given = false;
    return {
      request: (request, handler) => held.client.request(request, handler),
      close: () => {
        if (given) return;
        given = true;
        if (--held.leases > 0) return;
        this.#shared.delete(key);
        held.client.close();
      },
    };
  }
}
