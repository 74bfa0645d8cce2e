import type { ClientProfile } from '../../model/client-profile.ts';
import type { Era } from '../../model/message.ts';
import type { EraVerdicts } from '../../model/ports.ts';
import type { HandshakeResult } from '../../model/server-catalog.ts';
import type { EraUnspoken } from './failures.ts';

type OtherEra = 'stateful' | 'none';

/**
 * Which eras a server speaks. The handshake finds the newest; whether a stateless server takes `initialize` as well is
 * asked when the first client with a session comes. Kept over restarts, as far as the server itself said it.
 */
export class SpokenEras {
  readonly #verdicts: EraVerdicts;
  readonly #identity: string;
  /** null until the server was met. */
  newest: Era | null;
  #also: OtherEra | null;
  /** It answered `server/discover` late and `initialize` not at all: the next start sends `server/discover` only. */
  ignoresInitialize = false;

  constructor(verdicts: EraVerdicts, identity: string) {
    this.#verdicts = verdicts;
    this.#identity = identity;
    const remembered = verdicts.get(identity);
    this.newest = remembered?.era ?? null;
    this.#also = this.#known();
  }

  get both(): boolean {
    return this.#also === 'stateful';
  }

  /** The client's own era where the server speaks it, else the server's; null while unknown. */
  servedIn(client: ClientProfile): Era | null {
    if (this.newest !== 'stateless' || client.sessionId === null) return this.newest;
    if (this.#also === null) return null;
    return this.#also === 'stateful' ? 'stateful' : 'stateless';
  }

  /** A handshake that began with `server/discover`, or found an old server, ended in this era. */
  found(era: Era): void {
    if (era !== this.newest || this.#also === null) this.#also = this.#known();
    this.newest = era;
  }

  /** A server of the stateless era took `initialize`. */
  tookInitialize(): void {
    this.#learn('stateful');
  }

  refusedInitialize({ lasting }: EraUnspoken): void {
    if (lasting) this.#learn('none');
    else this.#also = 'none';
  }

  /** What was known has failed: it is to be found out anew. */
  doubt(): void {
    this.#learn(null);
  }

  /** The server is started anew: what it did not say itself may be otherwise now. */
  restarted(): void {
    if (this.#also === 'none') this.#also = this.#known();
  }

  #known(): OtherEra | null {
    return this.#verdicts.get(this.#identity)?.also ?? (this.ignoresInitialize ? 'none' : null);
  }

  #learn(also: OtherEra | null): void {
    this.#also = also;
    const verdict = this.#verdicts.get(this.#identity);
    if (verdict === null || verdict.era !== 'stateless' || (verdict.also ?? null) === also) return;
    const { era, revision } = verdict;
    this.#verdicts.set(this.#identity, also === null ? { era, revision } : { era, revision, also });
  }
}

/** Who has no session speaks 2026-07-28, or is the gateway itself, to which all is the same. */
export function ownEra(client: ClientProfile): Era {
  return client.sessionId === null ? 'stateless' : 'stateful';
}

/** Whether a server has said the same in both handshakes. */
export function sameHandshake(one: HandshakeResult, other: HandshakeResult): boolean {
  return one.era === other.era && one.revision === other.revision && one.result.equals(other.result);
}
