/** Credentials of the gateway towards servers: what definitions say of them, what requests carry, and what people see. */
import { described, flag, type Infer, list, named, nullable, object, oneOf, text, wallTime } from './schema.ts';
import type { Secret } from './secret.ts';

/** How the gateway gets a token where no user has to consent. */
export const GRANTS = [
  'authorization_code',
  'client_credentials',
  'token_exchange',
  'enterprise_managed',
  'workload_identity',
] as const;

/** A program that prints the credential for a server. */
export interface ExecSpec {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, Secret>>;
  readonly cwd: string;
  readonly timeoutMs: number;
}

/** What a definition says of its OAuth (`auth` of a server behind a URL); without any of it everything is discovered. */
export interface AuthSpec {
  readonly grant: (typeof GRANTS)[number];
  /** Registered with the authorization server beforehand; null: a client id metadata document, else dynamic registration. */
  readonly clientId: string | null;
  readonly clientSecret: Secret | null;
  /** PKCS 8 PEM, for `private_key_jwt`. */
  readonly privateKey: Secret | null;
  /** Replaces the scopes that the server asks for. */
  readonly scopes: readonly string[] | null;
  /** The only issuer that is taken; null: as the server says. */
  readonly issuer: string | null;
  /** The token to exchange, or the assertion of a workload; read for each exchange. */
  readonly subjectToken: Secret | null;
  readonly subjectTokenFile: string | null;
  /** Of `enterprise_managed`: where the identity provider exchanges its id token, and the client it knows. */
  readonly idpTokenEndpoint: string | null;
  readonly idpClientId: string | null;
  readonly idpClientSecret: Secret | null;
  /** Whose the credentials are: one for all callers, or each principal's own. */
  readonly per: 'gateway' | 'principal';
  /** Tokens are bound to a key of the gateway (RFC 9449). */
  readonly dpop: boolean;
  /** In place of all the others. */
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
  /** What must not show in texts about its requests. */
  readonly secrets: readonly string[];
}

export interface CredentialRefusal {
  readonly status: number;
  /** `WWW-Authenticate`; null without one. */
  readonly challenge: string | null;
  /** What the refused request carried. */
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
/** One credential, for people. No secrets. */
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
/** A login that was begun. It ends when its user has opened the URL and has consented. */
export type StartedLogin = Infer<typeof LOGIN>;

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
/** A stored secret, for people: never its value. */
export type SecretView = Infer<typeof SECRET>;
export const SECRETS = object({ secrets: list(SECRET) });
