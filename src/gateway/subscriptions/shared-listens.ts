import { SharedListen, type SharedListenDeps, type Subscriber } from './shared-listen.ts';

/** The feeds of all stateless servers: one for the clients that share a connection and a principal. */
export class SharedListens {
  readonly #deps: SharedListenDeps;
  readonly #sharedListens = new Map<string, SharedListen>();

  constructor(deps: SharedListenDeps) {
    this.#deps = deps;
  }

  /** Lets it hear of the server until the returned function is called. */
  join(server: string, subscriber: Subscriber): () => void {
    const { client } = subscriber;
    const connection = this.#deps.upstreams.sessionKey(server, client) ?? '';
    const key = `${server}\0${client.principal.id}\0${connection}`;
    let shared = this.#sharedListens.get(key);
    if (shared === undefined) {
      shared = new SharedListen(this.#deps, server, () => this.#sharedListens.delete(key));
      this.#sharedListens.set(key, shared);
    }
    shared.join(subscriber);
    const joined = shared;
    return () => joined.leave(subscriber);
  }

  close(): void {
    for (const shared of [...this.#sharedListens.values()]) shared.close();
  }
}
