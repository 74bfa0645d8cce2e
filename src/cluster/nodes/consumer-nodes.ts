import type { ClientProfile } from '../../model/client-profile.ts';
import { LruMap } from '../lru-map.ts';

const MAX_SESSIONS = 65_536;

/** The nodes whose clients use this node's servers, which therefore get notifications of the servers. */
export class ConsumerNodes {
  readonly #sessions = new LruMap<string>(MAX_SESSIONS);
  readonly #servers = new Map<string, Set<string>>();

  used(server: string, { sessionId }: ClientProfile, peer: string): void {
    if (sessionId !== null) this.#sessions.set(sessionId, peer);
    const peers = this.#servers.get(server);
    if (peers === undefined) this.#servers.set(server, new Set([peer]));
    else peers.add(peer);
  }

  /** The peer whose session it is; null if it is this node's or unknown. */
  holderOf(sessionId: string): string | null {
    return this.#sessions.peek(sessionId) ?? null;
  }

  of(server: string): Iterable<string> {
    return this.#servers.get(server) ?? [];
  }

  /** Its sessions continue at other nodes. */
  lost(peer: string): void {
    this.#sessions.deleteWhere((holder) => holder === peer);
  }

  forget(peer: string): void {
    for (const [server, peers] of this.#servers) {
      if (peers.delete(peer) && peers.size === 0) this.#servers.delete(server);
    }
  }
}
