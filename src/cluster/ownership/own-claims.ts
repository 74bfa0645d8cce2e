import type { ClientProfile } from '../../model/client-profile.ts';
import { fencingToken } from '../store-records.ts';

export class Claim {
  readonly server: string;
  readonly key: string;
  /** Whether the claim had no owner before, so that no process of an earlier epoch can have served it. */
  readonly fresh: boolean;
  /** If fresh: claims up to this revision may have been deleted, including one of an earlier owner. */
  readonly forgotten: number;
  /** Null for a singleton, a warm connection and a stream. */
  readonly client: ClientProfile | null;
  readonly since: number;
  revision: number;
  /** True while `OwnClaims` has the claim; it never becomes true again. */
  held = false;
  lossReported = false;
  /** Number of processes that are starting, running or ending. */
  processes = 0;
  serving = 0;
  /** Whether a call may have reached its process, which may then have state. */
  used = false;
  readonly #incarnation: string;

  constructor(what: Pick<Claim, 'server' | 'key' | 'fresh' | 'forgotten' | 'client' | 'since'>, incarnation: string) {
    this.server = what.server;
    this.key = what.key;
    this.fresh = what.fresh;
    this.forgotten = what.forgotten;
    this.client = what.client;
    this.since = what.since;
    this.revision = what.since;
    this.#incarnation = incarnation;
  }

  /** The fencing token; grows with every change of owner. */
  get epoch(): string {
    return fencingToken(this.#incarnation, this.since);
  }
}

/** Claims by server and key; nested maps, because joined keys would copy the text of thousands of sessions. */
export class OwnClaims {
  readonly #servers = new Map<string, Map<string, Claim>>();
  size = 0;

  get(server: string, key: string): Claim | undefined {
    return this.#servers.get(server)?.get(key);
  }

  under(key: string): Claim[] {
    return [...this.#servers.values()].flatMap((claims) => claims.get(key) ?? []);
  }

  set(claim: Claim): void {
    let claims = this.#servers.get(claim.server);
    if (claims === undefined) this.#servers.set(claim.server, (claims = new Map()));
    const before = claims.get(claim.key);
    if (before === undefined) this.size++;
    else before.held = false;
    claims.set(claim.key, claim);
    claim.held = true;
  }

  delete({ server, key }: Pick<Claim, 'server' | 'key'>): void {
    const claims = this.#servers.get(server);
    const claim = claims?.get(key);
    if (claims === undefined || claim === undefined) return;
    claim.held = false;
    claims.delete(key);
    this.size--;
    if (claims.size === 0) this.#servers.delete(server);
  }

  clear(): void {
    for (const claim of this.values()) claim.held = false;
    this.#servers.clear();
    this.size = 0;
  }

  *values(): Iterable<Claim> {
    for (const claims of this.#servers.values()) yield* claims.values();
  }
}
