/** Credentials of the gateway at servers: definitions, request headers and views for people. */
import { described, flag, type Infer, list, named, nullable, object, oneOf, text, wallTime } from './schema.ts';
import type { Secret } from './secret.ts';

/** How the gateway gets a token. All grants but `authorization_code` need no consent of a user. */
export const GRANTS = [
  'authorization_code',
  'client_credentials',
  'token_exchange',
  'enterprise_managed',
  'workload_identity',
] as const;

/** A program that prints the credential of a server. */
export interface ExecSpec {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, Secret>>;
  readonly cwd: string;
  readonly timeoutMs: number;
}

/** OAuth settings of a definition (`auth` of a server behind a URL); the gateway discovers what is not set. */
export interface AuthSpec {
  readonly grant: (typeof GRANTS)[number];
  /** The client registered beforehand; null: a client id metadata document or dynamic registration. */
  readonly clientId: string | null;
  readonly clientSecret: Secret | null;
  /** PKCS 8 PEM, for `private_key_jwt`. */
  readonly privateKey: Secret | null;
  /** Replaces the scopes that the server requests. */
  readonly scopes: readonly string[] | null;
  /** The only issuer that the gateway accepts; null: the one that the server names. */
  readonly issuer: string | null;
  /** The token to exchange, or the assertion of a workload; read for each exchange. */
  readonly subjectToken: Secret | null;
  readonly subjectTokenFile: string | null;
  /** For `enterprise_managed`: the token endpoint of the identity provider, and the client registered there. */
  readonly idpTokenEndpoint: string | null;
  readonly idpClientId: string | null;
  readonly idpClientSecret: Secret | null;
  /** One credential for all callers, or one for each principal. */
  readonly per: 'gateway' | 'principal';
  /** Binds tokens to a key of the gateway (RFC 9449). */
  readonly dpop: boolean;
  /** Replaces all other settings. */
  readonly exec: ExecSpec | null;
}

export const PLAIN_AUTH: AuthSpec = {
  grant: 'authorization_code',
  clientId: null,
  clientSecret: null,
  privateKey: null,
  scopes: null,
  issuer: null,
  subjectToken: null,
  subjectTokenFile: null,
  idpTokenEndpoint: null,
  idpClientId: null,
  idpClientSecret: null,
  per: 'gateway',
  dpop: false,
  exec: null,
};

/** The credential for the requests of one connection. */
export interface CredentialLease {
  /**
   * Headers for the next request, name and value alternating; null without a credential. Returns a promise, which never
   * rejects, if a token has to be fetched first. Called for every request, so a token in memory costs only a field access.
   */
  headers(method: string, url: string): readonly string[] | null | Promise<readonly string[] | null>;
  /**
   * The server answered 401, or 403 with `insufficient_scope`, to a request with these headers. Resolves with whether the
   * caller may send the request once more, with new headers. Requests refused at the same time share one exchange in the
   * whole cluster (fault:F20). Never rejects.
   */
  refused(refusal: CredentialRefusal): Promise<boolean>;
  /** Takes the `DPoP-Nonce` of an answer, for the next request (RFC 9449 §8.2). */
  nonce(value: string): void;
  /** Values to redact in texts about the requests. */
  readonly secrets: readonly string[];
}

export interface CredentialRefusal {
  readonly status: number;
  /** The `WWW-Authenticate` header; null without one. */
  readonly challenge: string | null;
  /** The credential headers of the refused request. */
  readonly headers: readonly string[] | null;
}

const CREDENTIAL_STATE = oneOf(['connected', 'expired', 'login_required', 'failed']);

export const CREDENTIAL = named(
  'Credential',
  object({
    server: text,
    principal: described(nullable(text), 'Whose it is: `agent:<name>`; null for one that all callers share.'),
    state: CREDENTIAL_STATE,
    reason: described(nullable(text), 'In words; null where all is well.'),
    issuer: nullable(text),
    clientId: nullable(text),
    scopes: list(text),
    expiresAt: described(nullable(wallTime), 'null where the token does not end.'),
    refreshable: described(flag, 'The gateway renews it without its user.'),
    program: described(flag, 'A program that the definition names gives it; else a login, or a grant without a user.'),
    changedAt: wallTime,
  }),
);
/** A credential as people see it. No secrets. */
export type CredentialView = Infer<typeof CREDENTIAL>;
export const CREDENTIALS = object({ credentials: list(CREDENTIAL) });

export const LOGIN = named(
  'StartedLogin',
  object({
    id: text,
    server: text,
    url: described(text, 'What a browser has to open, within ten minutes.'),
    userCode: described(nullable(text), 'Of the device grant (RFC 8628): what the user types there; else null.'),
    expiresAt: wallTime,
  }),
);
/** A login that has begun. It ends when the user has opened the URL and consented. */
export type StartedLogin = Infer<typeof LOGIN>;

/** How long a login may take, from its begin. */
export const LOGIN_MS = 600_000;

export const SECRET = named(
  'StoredSecret',
  object({
    name: text,
    state: described(
      oneOf(['kept', 'unreadable']),
      '`unreadable`: the key that sealed it is gone; it has to be set again.',
    ),
    changedAt: nullable(wallTime),
  }),
);
/** A stored secret as people see it, without its value. */
export type SecretView = Infer<typeof SECRET>;
export const SECRETS = object({ secrets: list(SECRET) });

export const MAX_SECRET_BYTES = 64 * 1024;
/** Why the key that seals credentials and secrets cannot be rotated. */
export const KEY_OF_CLUSTER =
  'the key comes from the secret of the cluster: change cluster.secret and cluster.previousSecret';
