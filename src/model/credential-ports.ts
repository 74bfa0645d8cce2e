import type { Principal } from './client-profile.ts';
import type { CredentialLease, CredentialView, SecretView, StartedLogin } from './credentials.ts';
import type { Server } from './server.ts';

/** Credentials for code that sends requests. Implemented by `credentials/`. */
export interface Credentials {
  /** Returns null for servers whose definition has credentials of its own, and for servers without a URL. */
  lease(server: Server): CredentialLease | null;
}

/** Logins at servers, for the command line, the control API, embedding programs and pages of the gateway. */
export interface Logins {
  /**
   * `redirectUri`: where the browser brings the code; null for the device grant. `principal`: the owner of the credential; null
   * for the one that all callers share, or the operator's own. `browser`: a secret of the only browser that may finish the
   * login; null if the redirect address alone suffices. Rejects with GatewayError.
   */
  begin(
    server: Server,
    redirectUri: string | null,
    principal: string | null,
    browser?: string | null,
  ): Promise<StartedLogin>;
  /**
   * `url`: the redirect URI as the browser opened it, with its query. `browser`: the secret given to `begin`. Rejects with
   * GatewayError, without a change.
   */
  finish(url: string, browser?: string | null): Promise<CredentialView>;
  /** Resolves when any node has finished the login successfully. Rejects with GatewayError if it was refused or timed out. */
  ended(id: string): Promise<CredentialView>;
  list(): Promise<readonly CredentialView[]>;
  /** `principal` as in `begin`. Deletes the credential on all nodes and revokes its tokens if possible (RFC 7009). */
  revoke(server: string, principal: string | null): Promise<boolean>;
}

/** How the users of callers sign in at servers. */
export interface UserLogins {
  /** Whether the gateway gets its credentials for the server from a user's login. */
  takesUser(server: string): boolean;
  /** The gateway page on which the caller's user signs in; null if only the operator can, with a command. */
  page(server: string, principal: Principal): Promise<string | null>;
  /** When the credential for the caller's calls last changed; null without a valid one. */
  connectedAt(server: string, principal: Principal): number | null;
}

/** Stored secrets of definitions, for the command line and the control API. A change is in force when its promise resolves. */
export interface SecretChanges {
  list(): Promise<readonly SecretView[]>;
  put(name: string, value: string): Promise<SecretView>;
  /** Resolves with false if there was none. */
  delete(name: string): Promise<boolean>;
  /** Seals all records with a new key and resolves with their number; null in a cluster, whose key comes from its secret. */
  rotateKey(): Promise<number | null>;
}
