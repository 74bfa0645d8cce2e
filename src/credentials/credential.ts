import type { AuthSpec, CredentialView } from '../model/credentials.ts';
import { authOf, type Server } from '../model/server.ts';
import { ownerOf } from './credential-owner.ts';
import type { StoredValue } from './credential-store.ts';
import type { Authority } from './discovery.ts';
import type { OAuthClient, Tokens } from './token-endpoint.ts';

/** A stored credential for a server. */
export interface Credential {
  /** URL of the server that the tokens are for; with another URL they are void. */
  readonly url: string;
  readonly authority: Authority;
  readonly client: OAuthClient;
  /** All scopes ever requested; a step-up adds to them. */
  readonly scopes: readonly string[];
  readonly tokens: Tokens | null;
  readonly reason: string | null;
  /** Until when a node has the claim to exchange, for which others wait; null if there is no exchange. */
  readonly exchangeUntil: number | null;
  readonly changedAt: number;
  /** Id of the login that gave the tokens, which renewals keep; absent without one, and in records of earlier versions. */
  readonly login?: string;
}

/** The credential as people see it, without secrets. `now`: wall clock. */
export function credentialView(
  { key, value }: Pick<StoredValue<Credential>, 'key' | 'value'>,
  now: number,
): CredentialView {
  const { authority, client, scopes, tokens, reason, changedAt } = value;
  const refreshable = tokens?.refresh != null;
  const ended = tokens?.expiresAt != null && tokens.expiresAt <= now && !refreshable;
  const lacking = tokens === null ? 'there is no token' : ended ? 'its token has ended' : null;
  return {
    ...ownerOf(key),
    state: tokens === null ? 'login_required' : ended ? 'expired' : reason === null ? 'connected' : 'failed',
    reason: reason ?? lacking,
    issuer: authority.metadata.issuer,
    clientId: client.id,
    scopes: tokens?.scopes ?? scopes,
    expiresAt: tokens?.expiresAt ?? null,
    refreshable,
    program: false,
    changedAt,
  };
}

/** The view of a credential whose sealing key is gone. */
export function unreadableView(key: string): CredentialView {
  return {
    ...ownerOf(key),
    state: 'failed',
    reason: 'it cannot be opened, the key that sealed it is gone',
    issuer: null,
    clientId: null,
    scopes: [],
    expiresAt: null,
    refreshable: false,
    program: false,
    changedAt: 0,
  };
}

/** Whether the credential is for this definition: from another issuer it would get the secret that is for `auth.issuer`. */
export function isFor(server: Server, { url, authority }: Credential): boolean {
  const { issuer } = authOf(server);
  const { transport } = server;
  return 'url' in transport && url === transport.url && (issuer === null || issuer === authority.metadata.issuer);
}

/** Whether a login was revoked or replaced while it was not stored. `before`: the revision known when it ended. */
export function isReplaced(login: Credential, before: number | null, there: StoredValue<Credential> | null): boolean {
  if (there === null) return before !== null;
  return there.revision !== before && there.value.changedAt >= login.changedAt;
}

/** Whether the tokens are more than a renewal of valid ones, so that a server which refused those may accept them. */
export function mayHelp(before: Credential | undefined, now: Credential): boolean {
  return before?.tokens == null || before.reason !== null || before.login !== now.login;
}

/** The client of the definition; null if it names none. */
export function definedClient({ clientId, clientSecret, privateKey }: AuthSpec): OAuthClient | null {
  if (clientId === null) return null;
  const secret = clientSecret?.reveal() ?? null;
  return { id: clientId, secret, privateKey: privateKey?.reveal() ?? null, authMethod: null };
}

/** The credential with the client of the definition as it is now, and, where no user consents, its scopes as well. */
export function asDefined(credential: Credential, auth: AuthSpec): Credential {
  const scopes = auth.grant === 'authorization_code' ? [] : (auth.scopes ?? []);
  return {
    ...credential,
    client: definedClient(auth) ?? credential.client,
    scopes: [...new Set([...credential.scopes, ...scopes])],
  };
}
