import { hash, timingSafeEqual } from 'node:crypto';
import { ANONYMOUS, type Principal } from '../../model/client-profile.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import type { Authenticator } from '../../model/ports.ts';

interface KnownKey {
  readonly digest: Buffer;
  readonly principal: Principal;
}

/**
 * Identifies the caller by the key in `Authorization: Bearer …` only: no other header, query parameter or cookie
 * establishes a principal.
 *
 * Keys are stored and compared as SHA-256 digests. The look-up by digest reveals nothing to an attacker, because a key that
 * is nearly right has an unrelated digest; a constant-time comparison decides.
 */
export class KeyAuthenticator implements Authenticator {
  #keys: ReadonlyMap<string, KnownKey> = new Map();
  #unknown: Principal | null = ANONYMOUS;
  #open = true;
  /** The program has given keys: callers without one stay refused when the last key is revoked. */
  keysOnly = false;
  /** Agents without a key for which the embedding program has connections, by id. */
  readonly connected = new Map<string, Principal>();

  constructor(state: Pick<DesiredState, 'agents' | 'unknownCallers'>) {
    this.replace(state);
  }

  /**
   * Takes the agents of a new desired state; removed keys stop working with the next request. `exposed`: the listener is open
   * to other machines, so that callers need a key whatever the state says.
   */
  replace(state: Pick<DesiredState, 'agents' | 'unknownCallers'>, exposed = false): void {
    const keys = new Map<string, KnownKey>();
    for (const agent of state.agents.values()) {
      const digest = hash('sha256', agent.key.reveal(), 'buffer');
      const keyDigest = digest.toString('latin1');
      const principal: Principal = { id: `agent:${agent.name}`, name: agent.name, servers: agent.servers, keyDigest };
      keys.set(keyDigest, { digest, principal });
      this.connected.delete(principal.id);
    }
    this.#keys = keys;
    this.#open = keys.size === 0 && !this.keysOnly && !exposed;
    this.#unknown = this.#open || (state.unknownCallers === 'allow' && !exposed) ? ANONYMOUS : null;
  }

  /** The current principal with this id; null if no key and no connection establishes it any more. */
  principal(id: string): Principal | null {
    if (id === this.#unknown?.id) return this.#unknown;
    for (const { principal } of this.#keys.values()) if (principal.id === id) return principal;
    return this.connected.get(id) ?? null;
  }

  authenticate(authorization: string | undefined): Principal | null {
    if (this.#open) return ANONYMOUS;
    const token = bearerToken(authorization);
    if (token === null) return this.#unknown;
    const digest = hash('sha256', token, 'buffer');
    const known = this.#keys.get(digest.toString('latin1'));
    return known !== undefined && timingSafeEqual(known.digest, digest) ? known.principal : this.#unknown;
  }
}

const SCHEME = 'bearer ';

/** The credentials of a Bearer header; null for anything else. The scheme is case-insensitive (RFC 9110 §11.1). */
function bearerToken(authorization: string | undefined): string | null {
  if (authorization === undefined || authorization.length <= SCHEME.length) return null;
  if (authorization.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return null;
  const token = authorization.slice(SCHEME.length).trim();
  return token === '' || token.includes(' ') ? null : token;
}
