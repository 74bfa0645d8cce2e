import { Feed, type FeedDeps, type Subscriber } from './feed.ts';

/** The feeds of all stateless servers: one for the clients that share a connection and a principal. */
export class Feeds {
  readonly #deps: FeedDeps;
  readonly #feeds = new Map<string, Feed>();

  constructor(deps: FeedDeps) {
    this.#deps = deps;
  }

  /** Lets it hear of the server until the returned function is called. */
  join(server: string, subscriber: Subscriber): () => void {
    const { client } = subscriber;
    const connection = this.#deps.upstreams.sessionKey(server, client) ?? '';
    const key = `${server}\0${client.principal.id}\0${connection}`;
    let feed = this.#feeds.get(key);
    if (feed === undefined) {
      feed = new Feed(this.#deps, server, () => this.#feeds.delete(key));
      this.#feeds.set(key, feed);
    }
    feed.join(subscriber);
    const joined = feed;
    return () => joined.leave(subscriber);
  }

  close(): void {
    for (const feed of [...this.#feeds.values()]) feed.close();
  }
}
