import type { ResourceServer } from 'oauth4webapi';
import { type BearerChallenge, bearerChallenge, requestWithoutToken } from '../../credentials/challenge.ts';
import type { ServerCredentials } from '../../credentials/credentials.ts';
import type { Authority } from '../../credentials/discovery.ts';
import { authorizationEndpoint, clientDocument, registrationEndpoint } from '../../credentials/endpoints.ts';
import { loginRefused, noLogin, toGatewayError } from '../../credentials/login-errors.ts';
import { whyNoLogin } from '../../credentials/logins.ts';
import { SignInTrace } from '../../credentials/sign-in-trace.ts';
import { printable } from '../../model/printable.ts';
import { authOf, type Server, takesTokens } from '../../model/server.ts';
import type { SignInCheck, SignInFinding, SignInStep } from '../../model/sign-in.ts';
import { type DoctorStep, failed, ok, splitRemedy, warning } from './doctor-step.ts';

type Name = SignInFinding['step'];
type Found = DoctorStep<Name>;

/** Texts are cut, because they quote documents of other parties. */
const MAX_TEXT = 1_000;

/** For errors without a remedy of their own. */
const REMEDIES: Readonly<Record<Name, string>> = {
  challenge: 'start the server, or mend the url of its definition',
  'resource metadata': 'have the server publish what RFC 9728 demands',
  'issuer metadata': 'have the authorization server publish what RFC 8414 demands',
  registration: 'register a client there and set auth.clientId in the definition',
  authorization: 'have the authorization server offer it (RFC 8414, RFC 7636)',
  token: 'have the authorization server offer it (RFC 8414)',
};

/** Whether the gateway itself signs in at the server. */
export function hasSignIn(server: Server): boolean {
  return takesTokens(server) && authOf(server).exec === null;
}

/**
 * Makes the requests of a sign-in up to the point where a browser opens, or to the step that fails. Registers no client and
 * stores nothing, so only a real sign-in shows a refused registration. Rejects if the server takes no tokens.
 */
export async function signInSteps(server: Server, credentials: ServerCredentials): Promise<readonly SignInFinding[]> {
  const { name, transport } = server;
  if (!('url' in transport) || !hasSignIn(server)) throw noLogin(`${name}: ${whyNoLogin(server)}`);
  const { clock, clientMetadataUrl } = credentials.deps;
  const trace = new SignInTrace(clock);
  const fetch = credentials.fetchFor(name, transport.url, trace);
  const found: SignInFinding[] = [];
  const asked = (step: Name) => trace.of(name).filter((request) => request.step === step);
  const addFinding = ({ text, ...rest }: Found): void => {
    found.push({ ...rest, text: printable(text).slice(0, MAX_TEXT), requests: asked(rest.step) });
  };
  let at: Name = 'challenge';
  try {
    const { status, headers } = await requestWithoutToken(fetch, transport.url);
    const challenge = bearerChallenge(status === 401 ? headers.get('www-authenticate') : null);
    const step = challengeStep(status, challenge);
    addFinding(step);
    if (step.state === 'failed') return found;
    at = 'resource metadata';
    const authority = await credentials.discover(server, fetch, challenge);
    const published = authority.resource !== null;
    if (status !== 401 && !published && asked('issuer metadata').every(({ problem }) => problem !== null)) {
      addFinding(
        ok('resource metadata', 'it publishes none, and asks for no credentials: there is nothing to sign in to'),
      );
      return found;
    }
    addFinding(resourceStep(asked('resource metadata'), published));
    addFinding(issuerStep(authority, asked('issuer metadata')));
    const scopes = credentials.wantedScopes(server, authority, challenge);
    for (const [step, describe] of remainingSteps(server, authority, clientMetadataUrl(), scopes)) {
      at = step;
      addFinding(ok(step, describe()));
    }
  } catch (error) {
    if (at === 'resource metadata' && asked('issuer metadata').length > 0) {
      addFinding(resourceStep(asked('resource metadata')));
      at = 'issuer metadata';
    }
    const [what, remedy] = splitRemedy(toGatewayError(name, error).message, name);
    addFinding(failed(at, what, remedy ?? REMEDIES[at]));
  }
  return found;
}

export async function checkedSignIn(server: Server, credentials: ServerCredentials): Promise<SignInCheck> {
  const steps = await signInSteps(server, credentials);
  return { server: server.name, ok: steps.every(({ state }) => state !== 'failed'), steps };
}

function challengeStep(status: number, { resourceMetadata, scope }: BearerChallenge): Found {
  if (status === 404 || status >= 500) return failed('challenge', `HTTP ${status}`, REMEDIES.challenge);
  if (status !== 401) return ok('challenge', `HTTP ${status} without a token: it asks for no credentials here`);
  const place = resourceMetadata === null ? 'it does not say where its metadata is' : `metadata ${resourceMetadata}`;
  return ok('challenge', `HTTP 401: ${place}${scope === null ? '' : `, scope ${scope}`}`);
}

/** `requests`: those for this document; the last successful one has it. */
function resourceStep(requests: readonly SignInStep[], published = true): Found {
  const document = requests.findLast(({ problem }) => problem === null);
  if (document === undefined || !published) {
    const words = 'it publishes none; without auth.issuer its own origin is the authorization server, as in 2025-03-26';
    return warning('resource metadata', words, REMEDIES['resource metadata']);
  }
  const { authorization_servers: issuers, scopes_supported: scopes } = (document.answer ??
    {}) as Partial<ResourceServer>;
  const words = `authorization server ${listed(issuers)}, scopes ${listed(scopes)}`;
  return ok('resource metadata', `${document.url}: ${words}`);
}

/** Returns the items of a list in an untrusted document. */
function listed(value: unknown): string {
  return (Array.isArray(value) ? value.join(' ') : '') || 'not named';
}

function issuerStep({ metadata }: Authority, requests: readonly SignInStep[]): Found {
  const document = requests.findLast(({ problem }) => problem === null);
  if (document !== undefined) return ok('issuer metadata', `${document.url} of ${metadata.issuer}`);
  const words = `${metadata.issuer} publishes none; the endpoints of 2025-03-26 are assumed`;
  return warning('issuer metadata', words, REMEDIES['issuer metadata']);
}

/** Yields the further steps of a sign-in, each with a function that describes it, or throws if the step is impossible. */
function* remainingSteps(
  server: Server,
  { metadata }: Authority,
  document: string | null,
  scopes: readonly string[],
): Generator<readonly [Name, () => string]> {
  const { clientId, grant } = authOf(server);
  const byUser = grant === 'authorization_code';
  yield [
    'registration',
    () => {
      if (clientId !== null) return `the definition names the client ${clientId}`;
      if (!byUser) throw loginRefused(`there is no client for ${grant}; set auth.clientId in the definition`);
      const client = clientDocument(document, metadata);
      return client === null ? `a sign-in registers at ${registrationEndpoint(metadata)}` : `the client is ${client}`;
    },
  ];
  const asked = scopes.length === 0 ? 'without scopes' : `for ${scopes.join(' ')}`;
  if (byUser) {
    const typed = metadata.device_authorization_endpoint === undefined ? '' : ', or a code is typed in';
    yield ['authorization', () => `${authorizationEndpoint(metadata)} ${asked}, with PKCE${typed}`];
  }
  yield [
    'token',
    () => {
      const { issuer, token_endpoint: endpoint } = metadata;
      if (endpoint === undefined) throw loginRefused(`its authorization server ${issuer} has no token endpoint`);
      return byUser ? endpoint : `${endpoint} ${asked}, grant ${grant}`;
    },
  ];
}
