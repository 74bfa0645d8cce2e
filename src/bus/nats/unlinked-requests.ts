interface Mux {
  reqs: Map<string, unknown>;
}

/**
 * Replaces the `Map` in which the NATS client keeps its requests: the tables that a V8 `Map` discards point to the new ones, so
 * finished requests survive young-generation collections, tens of KiB per session (decision 009).
 */
class UnlinkedRequests {
  size = 0;
  readonly #requests: Record<string, unknown> = Object.create(null);

  set(token: string, request: unknown): this {
    if (!(token in this.#requests)) this.size++;
    this.#requests[token] = request;
    return this;
  }

  get(token: string): unknown {
    return this.#requests[token];
  }

  delete(token: string): boolean {
    if (!(token in this.#requests)) return false;
    this.size--;
    return delete this.#requests[token];
  }

  values(): unknown[] {
    return Object.values(this.#requests);
  }

  forEach(task: (request: unknown, token: string) => void): void {
    for (const [token, request] of Object.entries(this.#requests)) task(request, token);
  }
}

/** Replaces the table of requests; does nothing if the client has another layout. */
export function unlinkRequests(connection: object): void {
  const { protocol } = connection as { protocol?: { muxSubscriptions?: Mux } };
  const mux = protocol?.muxSubscriptions;
  if (!(mux?.reqs instanceof Map) || mux.reqs.size > 0) return;
  mux.reqs = new UnlinkedRequests() as unknown as Map<string, unknown>;
}
