/** Credentials of the gateway towards servers: what a definition says of them, and the ports between those that get and those that use them. */
import { described, flag, type Infer, list, named, nullable, object, oneOf, text, wallTime } from './schema.ts';
import type { Secret } from './secret.ts';
import type { Server } from './server.ts';

/** Of all callers of the server. Other owners are ids of principals. */
export const SHARED = 'shared';

/** How a client of an authorization server proves who it is. */
export interface OAuthClient {
  readonly id: string;
  readonly secret: Secret | null;
  /** PEM or JWK, for `private_key_jwt`. */
  readonly privateKey: Secret | null;
}

/** What a definition says of its OAuth (`auth` of a server); without any of it everything is discovered. */
export interface OAuthSpec {
  readonly type: 'oauth';
  /** `principal`: each caller has credentials, connections and cached answers of its own. */
  readonly per: typeof SHARED | 'principal';
  readonly grant:
    | 'authorization_code'
    | 'client_credentials'
    | 'token_exchange'
    | 'enterprise_managed'
    | 'workload_identity';
  /** Registered with the authorization server beforehand; null: a client id metadata document, else dynamic registration. */
  readonly client: OAuthClient | null;
  /** Replaces the scopes that the server asks for. */
  readonly scopes: readonly string[] | null;
  /** Issuer that is taken, and no other; null: as the server says. */
  readonly issuer: string | null;
  /** URL of the client id metadata document; null: the gateway's own where it has a public URL. */
  readonly clientMetadataUrl: string | null;
  /** Where the token to exchange comes from: a file that is read for each exchange, or a value. */
  readonly subjectToken: { readonly file: string } | { readonly value: Secret } | null;
  /** Of `enterprise_managed`: the identity provider's issuer, whose client `idpClient` is. */
  readonly idpIssuer: string | null;
  readonly idpClient: OAuthClient | null;
  /** Tokens are bound to a key of the gateway (RFC 9449) where the authorization server offers that. */
  readonly dpop: boolean;
}

/** A program that prints a credential, as `git credential` and `docker-credential-*` do. */
export interface ExecSpec {
  readonly type: 'exec';
  readonly per: typeof SHARED | 'principal';
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, Secret>>;
}

export type AuthSpec = OAuthSpec | ExecSpec;

/** The credential that requests of one connection carry. */
export interface CredentialLease {
  /**
   * Headers for the next request, name and value alternating; null without a credential. A promise where a token has to
   * be fetched first; it never rejects. Called for every request: from memory it costs no more than a field.
   */
  headers(method: string, url: string): readonly string[] | null | Promise<readonly string[] | null>;
  /**
   * The server answered 401, or 403 with `insufficient_scope`, to a request with these headers. Resolves with whether the
   * same request may be sent once more, with new headers. Requests refused at the same time share one exchange, in the
   * whole cluster (fault:F20). Never rejects.
   */
  refused(refusal: CredentialRefusal): Promise<boolean>;
  /** Of the server's answers: its next `DPoP-Nonce` (RFC 9449 §8.2). */
  nonce(value: string): void;
}

export interface CredentialRefusal {
  readonly status: number;
  /** `WWW-Authenticate`; null without one. */
  readonly challenge: string | null;
  /** What the refused request carried. */
  readonly headers: readonly string[] | null;
}

/** Credentials, seen by those that send requests. Implemented by `credentials/`. */
export interface Credentials {
  /** `principal`: id of the caller whose connection it is. null for servers whose definition has its own `Authorization`. */
  lease(server: Server, principal: string): CredentialLease | null;
  /** Whether a call of this caller can only end in AUTH_REQUIRED. Memory only. */
  lacking(server: Server, principal: string): boolean;
}

const CREDENTIAL_STATE = oneOf(['connected', 'expired', 'login_required', 'failed']);

export const CREDENTIAL = named(
  'Credential',
  object({
    server: text,
    owner: described(text, '`shared`, or the id of a principal.'),
    state: CREDENTIAL_STATE,
    reason: described(nullable(text), 'In words; null where all is well.'),
    issuer: nullable(text),
    clientId: nullable(text),
    scopes: list(text),
    expiresAt: described(nullable(wallTime), 'null where the token does not end.'),
    refreshable: described(flag, 'The gateway renews it without its user.'),
    changedAt: wallTime,
  }),
);
/** One credential, for people. No secrets. */
export type CredentialView = Infer<typeof CREDENTIAL>;
export const CREDENTIALS = object({ credentials: list(CREDENTIAL) });

export const LOGIN = named(
  'StartedLogin',
  object({
    id: text,
    server: text,
    owner: text,
    url: described(text, 'What a browser has to open, within ten minutes.'),
    userCode: described(nullable(text), 'Of the device grant (RFC 8628): what the user types there; else null.'),
    expiresAt: wallTime,
  }),
);
/** A login that was begun. It ends when its user has opened the URL and has consented. */
export type StartedLogin = Infer<typeof LOGIN>;

/** Logins at servers, for the command line, the control API, embedding programs and questions to callers. */
export interface Logins {
  /** `redirectUri`: where the browser is to bring the code; null for the device grant. Rejects with GatewayError. */
  begin(server: Server, owner: string, redirectUri: string | null): Promise<StartedLogin>;
  /** `url`: the redirect URI as the browser came to it, with its query. Rejects with GatewayError; nothing has changed then. */
  finish(url: string): Promise<CredentialView>;
  /** Resolves when the login has ended well, by whichever node. Rejects with GatewayError: refused, or out of time. */
  ended(id: string): Promise<CredentialView>;
  list(): Promise<readonly CredentialView[]>;
  /** Forgets the credential on all nodes, and revokes it at the authorization server where that can (RFC 7009). */
  revoke(server: string, owner: string): Promise<boolean>;
}
