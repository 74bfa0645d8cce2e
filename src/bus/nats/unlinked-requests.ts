/** What the client of NATS keeps of its requests, as far as it is meant here. */
interface Mux {
  reqs: Map<string, unknown>;
}

/**
 * The requests that wait for their replies, in a plain object instead of the client's `Map`. Of that the old tables point on to
 * the new ones, so that once one of them is old, all requests outlive young collections with everything they hold: of each
 * session that was opened at a node tens of KiB (decision 009).
 */
class UnlinkedRequests {
  #size = 0;
  readonly #requests: Record<string, unknown> = Object.create(null);

  get size(): number {
    return this.#size;
  }

  set(token: string, request: unknown): this {
    if (!(token in this.#requests)) this.#size++;
    this.#requests[token] = request;
    return this;
  }

  get(token: string): unknown {
    return this.#requests[token];
  }

  delete(token: string): boolean {
    if (!(token in this.#requests)) return false;
    this.#size--;
    return delete this.#requests[token];
  }

  values(): unknown[] {
    return Object.values(this.#requests);
  }

  forEach(task: (request: unknown, token: string) => void): void {
    for (const [token, request] of Object.entries(this.#requests)) task(request, token);
  }
}

/** The connection is new. A client that keeps its requests in another way is left as it is. */
export function unlinkRequests(connection: object): void {
  const { protocol } = connection as { protocol?: { muxSubscriptions?: Mux } };
  const mux = protocol?.muxSubscriptions;
  if (!(mux?.reqs instanceof Map) || mux.reqs.size > 0) return;
  mux.reqs = new UnlinkedRequests() as unknown as Map<string, unknown>;
}
