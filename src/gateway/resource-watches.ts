import type { Message } from '../model/message.ts';
import type { Upstreams } from '../model/ports.ts';
import { mayUse } from '../model/principal.ts';
import { request } from '../protocol/compose.ts';
import { exposedUpdate } from './exposed-update.ts';
import type { Listen } from './listen.ts';
import { OwnExchange } from './own-exchange.ts';

interface Watch {
  readonly server: string;
  readonly uri: string;
  /** Listens that want it, each with the URI it used. */
  readonly listens: Map<Listen, string>;
}

/**
 * Resources of stateful servers that stateless clients listen to: one `resources/subscribe` per server, resource and
 * kind of client, taken back when the last listen on it ends (protocol.md §2).
 */
export class ResourceWatches {
  readonly #upstreams: Upstreams;
  readonly #watches = new Map<string, Watch>();

  constructor(upstreams: Upstreams) {
    this.#upstreams = upstreams;
  }

  /** Resolves with those of the client's URIs that the server agreed to. */
  async watch(listen: Listen, server: string, uris: ReadonlyMap<string, string>): Promise<string[]> {
    const agreed = await Promise.all(
      Array.from(uris, async ([uri, name]) => ((await this.#one(listen, server, uri, name)) ? [name] : [])),
    );
    return agreed.flat();
  }

  /** An update that came over a connection which is not one session's. */
  updated(server: string, uri: string, message: Message): void {
    for (const watch of this.#watches.values()) {
      if (watch.server !== server || watch.uri !== uri) continue;
      for (const [listen, name] of watch.listens) {
        if (mayUse(listen.client.principal, server)) listen.send(exposedUpdate(message, () => name));
      }
    }
  }

  async #one(listen: Listen, server: string, uri: string, name: string): Promise<boolean> {
    const { principal, fingerprint, handle } = listen.client;
    const key = [server, uri, principal.id, fingerprint, handle ?? ''].join('\0');
    const known = this.#watches.get(key);
    if (known === undefined) {
      const watch: Watch = { server, uri, listens: new Map([[listen, name]]) };
      this.#watches.set(key, watch);
      if (!(await this.#tell('resources/subscribe', listen, watch))) {
        watch.listens.delete(listen);
        if (watch.listens.size === 0) this.#watches.delete(key);
        return false;
      }
    } else known.listens.set(listen, name);
    listen.onEnd(() => this.#leave(key, listen));
    return true;
  }

  #leave(key: string, listen: Listen): void {
    const watch = this.#watches.get(key);
    if (watch === undefined || !watch.listens.delete(listen) || watch.listens.size > 0) return;
    this.#watches.delete(key);
    void this.#tell('resources/unsubscribe', listen, watch);
  }

  async #tell(method: string, listen: Listen, { server, uri }: Watch): Promise<boolean> {
    const message = request(method, '0', JSON.stringify({ uri }), 'stateful');
    const outcome = await this.#upstreams.call(
      server,
      message,
      new OwnExchange(listen.exchange.id, message, listen.client),
    );
    return outcome.kind === 'answer' && outcome.message.kind === 'result';
  }
}
