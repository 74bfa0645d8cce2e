import type { CredentialLease, CredentialView, SecretView, StartedLogin } from './credentials.ts';
import type { Server } from './server.ts';

/** Credentials, seen by those that send requests. Implemented by `credentials/`. */
export interface Credentials {
  /** null for servers whose definition has credentials of its own, and for those that are not behind a URL. */
  lease(server: Server): CredentialLease | null;
}

/** Logins at servers, for the command line, the control API, embedding programs and questions to callers. */
export interface Logins {
  /**
   * `redirectUri`: where the browser is to bring the code; null for the device grant. `principal`: whose the credential will
   * be; null for the one that all callers share, or the operator's own. Rejects with GatewayError.
   */
  begin(server: Server, redirectUri: string | null, principal: string | null): Promise<StartedLogin>;
  /** `url`: the redirect URI as the browser came to it, with its query. Rejects with GatewayError; nothing has changed then. */
  finish(url: string): Promise<CredentialView>;
  /** Resolves when the login has ended well, by whichever node. Rejects with GatewayError: refused, or out of time. */
  ended(id: string): Promise<CredentialView>;
  list(): Promise<readonly CredentialView[]>;
  /** `principal` as for `begin`. Forgets the credential on all nodes, and revokes it at the authorization server where that can (RFC 7009). */
  revoke(server: string, principal: string | null): Promise<boolean>;
}

/** Secrets for definitions, for the command line and the control API. A change holds when its promise resolves. */
export interface SecretChanges {
  list(): Promise<readonly SecretView[]>;
  put(name: string, value: string): Promise<SecretView>;
  /** False where there was none. */
  delete(name: string): Promise<boolean>;
  /** Seals everything with a new key; resolves with how many records. null in a cluster, whose key comes from its secret. */
  rotateKey(): Promise<number | null>;
}
