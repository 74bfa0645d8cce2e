import type { Principal } from './client-profile.ts';
import type { CredentialLease, CredentialView, SecretView, StartedLogin } from './credentials.ts';
import type { Server } from './server.ts';

/** Credentials, seen by those that send requests. Implemented by `credentials/`. */
export interface Credentials {
  /** null for servers whose definition has credentials of its own, and for those that are not behind a URL. */
  lease(server: Server): CredentialLease | null;
}

/** Logins at servers, for the command line, the control API, embedding programs and pages of the gateway. */
export interface Logins {
  /**
   * `redirectUri`: where the browser is to bring the code; null for the device grant. `principal`: whose the credential will
   * be; null for the one that all callers share, or the operator's own. `browser`: a secret of the browser that alone may end
   * the login; null where the address alone proves it. Rejects with GatewayError.
   */
  begin(
    server: Server,
    redirectUri: string | null,
    principal: string | null,
    browser?: string | null,
  ): Promise<StartedLogin>;
  /**
   * `url`: the redirect URI as the browser came to it, with its query. `browser`: what it has of `begin`. Rejects with
   * GatewayError; nothing has changed then.
   */
  finish(url: string, browser?: string | null): Promise<CredentialView>;
  /** Resolves when the login has ended well, by whichever node. Rejects with GatewayError: refused, or out of time. */
  ended(id: string): Promise<CredentialView>;
  list(): Promise<readonly CredentialView[]>;
  /** `principal` as for `begin`. Forgets the credential on all nodes, and revokes it at the authorization server where that can (RFC 7009). */
  revoke(server: string, principal: string | null): Promise<boolean>;
}

/** How the users of callers sign in at servers. */
export interface UserLogins {
  /** Whether this gateway gets its credentials for the server by the login of a user. */
  takesUser(server: string): boolean;
  /** The page of the gateway on which the caller's user signs in; null where only the operator can, by a command. */
  page(server: string, principal: Principal): Promise<string | null>;
  /** When the credential for the caller's calls was last changed; null without one that holds. */
  connectedAt(server: string, principal: Principal): number | null;
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
