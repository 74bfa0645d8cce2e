import type { ClientProfile } from '../../model/client-profile.ts';
import type { Era } from '../../model/message.ts';
import type { EraVerdicts } from '../../model/ports.ts';
import type { HandshakeResult } from '../../model/server-catalog.ts';
import type { EraUnsupported } from './failures.ts';

type OtherEra = 'stateful' | 'none';

/**
 * The eras that a server speaks. The handshake finds the newest; whether a stateless server also accepts `initialize` is tested
 * when the first client with a session arrives. Explicit answers of the server are kept over restarts.
 */
export class SupportedEras {
  readonly #verdicts: EraVerdicts;
  readonly #identity: string;
  /** null until the first handshake. */
  newest: Era | null;
  #other: OtherEra | null;
  /** The server answered `server/discover` late and `initialize` never: the next start sends only `server/discover`. */
  ignoresInitialize = false;

  constructor(verdicts: EraVerdicts, identity: string) {
    this.#verdicts = verdicts;
    this.#identity = identity;
    const remembered = verdicts.get(identity);
    this.newest = remembered?.era ?? null;
    this.#other = this.#known();
  }

  get acceptsBoth(): boolean {
    return this.#other === 'stateful';
  }

  /** The client's own era if the server speaks it, else the server's; null if unknown. */
  eraFor(client: ClientProfile): Era | null {
    if (this.newest !== 'stateless' || client.sessionId === null) return this.newest;
    if (this.#other === null) return null;
    return this.#other === 'stateful' ? 'stateful' : 'stateless';
  }

  /** A handshake with `server/discover` or with an old server ended in this era. */
  found(era: Era): void {
    if (era !== this.newest || this.#other === null) this.#other = this.#known();
    this.newest = era;
  }

  /** A server of the stateless era accepted `initialize`. */
  initializeAccepted(): void {
    this.#learn('stateful');
  }

  initializeRefused({ permanent }: EraUnsupported): void {
    if (permanent) this.#learn('none');
    else this.#other = 'none';
  }

  /** What was known has proved wrong: it must be tested again. */
  invalidate(): void {
    this.#learn(null);
  }

  /** The server restarts: a failure that was not an explicit refusal may not recur. */
  restarted(): void {
    if (this.#other === 'none') this.#other = this.#known();
  }

  #known(): OtherEra | null {
    return this.#verdicts.get(this.#identity)?.also ?? (this.ignoresInitialize ? 'none' : null);
  }

  #learn(also: OtherEra | null): void {
    this.#other = also;
    const verdict = this.#verdicts.get(this.#identity);
    if (verdict === null || verdict.era !== 'stateless' || (verdict.also ?? null) === also) return;
    const { era, revision } = verdict;
    this.#verdicts.set(this.#identity, also === null ? { era, revision } : { era, revision, also });
  }
}

/** A client without a session speaks 2026-07-28, or is the gateway itself, for which the era does not matter. */
export function ownEra(client: ClientProfile): Era {
  return client.sessionId === null ? 'stateless' : 'stateful';
}

/** Whether both handshakes had the same result. */
export function sameHandshake(one: HandshakeResult, other: HandshakeResult): boolean {
  return one.era === other.era && one.revision === other.revision && one.result.equals(other.result);
}
