import { CREDENTIAL, GRANTS } from './credentials.ts';
import {
  anyValue,
  described,
  flag,
  type Infer,
  list,
  milliseconds,
  named,
  nullable,
  object,
  oneOf,
  record,
  text,
  wallTime,
} from './schema.ts';

const STEP = named(
  'SignInStep',
  object({
    at: wallTime,
    step: described(
      oneOf([
        'challenge',
        'resource metadata',
        'issuer metadata',
        'registration',
        'authorization',
        'redirect',
        'token',
        'user code',
        'revocation',
      ]),
      '`challenge`: a request without a token. `authorization`: where the browser is sent. `redirect`: what it brings back.',
    ),
    method: nullable(text),
    url: described(text, 'Without the values of `code` and `state`.'),
    status: described(nullable(oneOfStatus()), 'Of the answer; null without one.'),
    ms: nullable(milliseconds),
    request: described(record(text), 'Parameters that were sent; what is secret is `[redacted]`.'),
    answer: described(anyValue, 'The document, without secrets; of `challenge` its `WWW-Authenticate`.'),
    problem: described(nullable(text), 'Why there is no good answer; null where all is well.'),
  }),
);
export type SignInStep = Infer<typeof STEP>;

function oneOfStatus() {
  return { type: 'integer', minimum: 100, maximum: 599 } as typeof milliseconds;
}

const FINDING = named(
  'SignInFinding',
  object({
    step: described(
      oneOf(['challenge', 'resource metadata', 'issuer metadata', 'registration', 'authorization', 'token']),
      'As in SignInStep. A step that fails is the last.',
    ),
    state: oneOf(['ok', 'warning', 'failed']),
    text: described(text, 'What was found, or what is wrong.'),
    fix: described(nullable(text), 'What to do; null where nothing has to be done.'),
    requests: described(list(STEP), 'What was asked for it, in order; empty where nothing had to be.'),
  }),
);
export type SignInFinding = Infer<typeof FINDING>;

export const SIGN_IN_CHECK = named(
  'SignInCheck',
  object({
    server: text,
    ok: described(flag, 'Whether no step failed.'),
    steps: list(FINDING),
  }),
);
export type SignInCheck = Infer<typeof SIGN_IN_CHECK>;

export const SIGN_IN = named(
  'SignIn',
  object({
    server: text,
    possible: described(flag, 'Whether a user can sign in at the server.'),
    reason: described(nullable(text), 'Why not; null where one can.'),
    auth: described(
      nullable(
        object({
          grant: oneOf(GRANTS),
          clientId: nullable(text),
          scopes: nullable(list(text)),
          issuer: nullable(text),
          per: oneOf(['gateway', 'principal']),
          dpop: flag,
        }),
      ),
      'What the definition says; null for a server that is not behind a URL.',
    ),
    credentials: list(CREDENTIAL),
    steps: described(list(STEP), 'Of the last sign-in at this node and of renewals since, oldest first; 60 at most.'),
  }),
);
export type SignInView = Infer<typeof SIGN_IN>;
