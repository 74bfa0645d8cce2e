import type { Credentials } from '../model/credential-ports.ts';
import type { CredentialLease, CredentialRefusal } from '../model/credentials.ts';
import { authOf, type Server, takesTokens } from '../model/server.ts';
import { scopesOf } from './challenge.ts';
import type { ServerCredentials } from './credentials.ts';
import type { Tokens } from './token-endpoint.ts';

type Headers = readonly string[] | null;

/** Creates the lease of each connection. */
export class Leases implements Credentials {
  readonly #credentials: ServerCredentials;

  constructor(credentials: ServerCredentials) {
    this.#credentials = credentials;
  }

  lease(server: Server): CredentialLease | null {
    const { exec } = authOf(server);
    if (exec !== null) return this.#credentials.deps.programs?.lease(server, exec) ?? null;
    return takesTokens(server) ? new Lease(this.#credentials, server) : null;
  }
}

/** The credential of one connection: the current tokens of its server. */
class Lease implements CredentialLease {
  readonly #credentials: ServerCredentials;
  readonly #server: Server;
  /** The tokens of `#headers`, which are encoded once per token. */
  #tokens: Tokens | null = null;
  #headers: Headers = null;
  #nonce: string | null = null;

  constructor(credentials: ServerCredentials, server: Server) {
    this.#credentials = credentials;
    this.#server = server;
  }

  get secrets(): readonly string[] {
    const access = this.#credentials.tokens(this.#server)?.access;
    return access === undefined ? [] : [access];
  }

  headers(method: string, url: string): Headers | Promise<Headers> {
    if (this.#credentials.needsRenewal(this.#server)) return this.#renewed(method, url);
    return this.#current(method, url);
  }

  async refused({ status, challenge, headers }: CredentialRefusal): Promise<boolean> {
    const said = this.#credentials.recordChallenge(this.#server, challenge);
    const used = this.#credentials.tokens(this.#server);
    if (said.error === 'use_dpop_nonce') return this.#nonce !== null;
    // Another request has renewed the token meanwhile, or a user has signed in.
    if (used !== null && headers?.[1] !== `${used.scheme} ${used.access}`) return true;
    // For the first token or more scopes, a grant with a user needs the user's consent.
    if ((used === null || status !== 401) && authOf(this.#server).grant === 'authorization_code') {
      if (status === 403) await this.#credentials.widen(this.#server, scopesOf(said.scope)).catch(() => null);
      return false;
    }
    return this.#credentials.renew(this.#server, used);
  }

  nonce(value: string): void {
    this.#nonce = value;
  }

  async #renewed(method: string, url: string): Promise<Headers> {
    await this.#credentials.renew(this.#server, this.#credentials.tokens(this.#server));
    return this.#current(method, url);
  }

  #current(method: string, url: string): Headers | Promise<Headers> {
    const tokens = this.#credentials.tokens(this.#server);
    if (tokens?.key != null) return this.#proven(tokens, method, url);
    if (tokens !== this.#tokens) {
      this.#tokens = tokens;
      this.#headers = tokens === null ? null : ['Authorization', `${tokens.scheme} ${tokens.access}`];
    }
    return this.#headers;
  }

  async #proven(tokens: Tokens, method: string, url: string): Promise<Headers> {
    const { dpopProof } = await import('./token-endpoint.ts');
    const proof = await dpopProof(tokens, method, url, this.#nonce, this.#credentials.deps.random);
    return ['Authorization', `${tokens.scheme} ${tokens.access}`, 'DPoP', proof];
  }
}
