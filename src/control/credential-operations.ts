import { pause } from '../model/clock.ts';
import { CREDENTIAL, CREDENTIALS, LOGIN } from '../model/credentials.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { described, nullable, object, optional, text } from '../model/schema.ts';
import { SIGN_IN, SIGN_IN_CHECK } from '../model/sign-in.ts';
import { RunTimeProblem, storeProblem } from '../registry/run-time-problem.ts';
import { bodyOf } from './json-object.ts';
import {
  type ApiOperation,
  type ControlAnswer,
  NO_SUCH_SERVER,
  noSuchServer,
  ok,
  operation,
  problem,
} from './operation.ts';
import { REMOVED } from './schemas.ts';

const WAIT_MS = 60_000;
const REFUSED = {
  409: 'This principal cannot sign in at the server: the message says why.',
  422: 'The login cannot go on; the message says why and what to do.',
  503: 'The server, its authorization server or the run-time store does not answer.',
};

const BEGIN = object({
  redirectUri: optional(nullable(text)),
  principal: optional(
    described(
      nullable(text),
      "Whose credential: `agent:<name>`, `anonymous`; null for the shared one, or the operator's.",
    ),
  ),
});
const FINISH = object({ url: text });

/** Logins at servers, and the resulting credentials. No operation returns a token. */
export const CREDENTIAL_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'listCredentials',
    method: 'GET',
    path: '/api/v1/credentials',
    summary: 'The credentials that the gateway holds for servers, and what state they are in.',
    schema: CREDENTIALS,
    run: async (_request, { logins }) => ok({ credentials: await logins.list() }),
  }),
  operation({
    id: 'beginLogin',
    method: 'POST',
    path: '/api/v1/servers/{name}/login',
    summary:
      'Begins a login at the server; a browser has to open the URL of the answer within ten minutes. It comes back to `redirectUri`: without one to the gateway itself (`listen.publicUrl`), with null to none, for a login with a user code.',
    body: BEGIN,
    status: 201,
    schema: LOGIN,
    errors: { 400: 'A member is malformed, or the redirect URI is not a URL.', ...NO_SUCH_SERVER, ...REFUSED },
    async run(request, plane) {
      const server = plane.server(request.name);
      if (server === null) return noSuchServer(request.name, plane);
      const wanted = bodyOf(BEGIN, request.body);
      if (typeof wanted === 'string') return problem(400, 'body_malformed', wanted);
      const { redirectUri = plane.loginCallback(), principal = null } = wanted;
      if (redirectUri === null && wanted.redirectUri === undefined) {
        const message = 'the gateway cannot be the redirect URI: set listen.publicUrl, or send a redirectUri';
        return problem(400, 'public_url_missing', message);
      }
      if (redirectUri !== null && !URL.canParse(redirectUri)) {
        return problem(400, 'redirect_uri_malformed', 'redirectUri has to be an absolute URL, or null for a user code');
      }
      return refusableLogin(async () => {
        const begun = await plane.logins.begin(server, redirectUri, principal);
        // The user enters the code elsewhere and does not return here, so the gateway polls for the end without a caller too.
        if (begun.userCode !== null) plane.logins.ended(begun.id).catch(() => null);
        return ok(begun);
      });
    },
  }),
  operation({
    id: 'getSignIn',
    method: 'GET',
    path: '/api/v1/servers/{name}/login',
    summary:
      'How the last sign-in at the server went, step by step: documents, registration, token answer. No secrets.',
    schema: SIGN_IN,
    errors: NO_SUCH_SERVER,
    runsAt: 'holder',
    async run({ name }, plane) {
      const server = plane.server(name);
      return server === null ? noSuchServer(name, plane) : ok(await plane.signIn(server));
    },
  }),
  operation({
    id: 'checkSignIn',
    method: 'POST',
    path: '/api/v1/servers/{name}/login/check',
    summary:
      'Asks what a sign-in at the server would ask before a browser opens, step by step, up to the one that fails. Registers no client.',
    schema: SIGN_IN_CHECK,
    runsAt: 'holder',
    errors: { ...NO_SUCH_SERVER, 409: 'The gateway gets no tokens for the server: the message says why.' },
    run({ name }, plane) {
      const server = plane.server(name);
      if (server === null) return noSuchServer(name, plane);
      return refusableLogin(async () => ok(await plane.checkSignIn(server)));
    },
  }),
  operation({
    id: 'finishLogin',
    method: 'POST',
    path: '/api/v1/login-redirects',
    summary: 'Ends a login with the address that the browser was sent back to.',
    body: FINISH,
    schema: CREDENTIAL,
    errors: { 400: 'The body has no `url`.', ...REFUSED },
    async run({ body }, { logins }) {
      const given = bodyOf(FINISH, body);
      if (typeof given === 'string') return problem(400, 'url_missing', given);
      if (!URL.canParse(given.url)) return problem(400, 'url_missing', 'url has to be an absolute URL');
      return refusableLogin(async () => ok(await logins.finish(given.url)));
    },
  }),
  operation({
    id: 'awaitLogin',
    method: 'GET',
    path: '/api/v1/logins/{name}',
    summary:
      'Waits for the end of the login of this id: its credential, or null after a minute in which it has not ended.',
    schema: nullable(CREDENTIAL),
    errors: REFUSED,
    run: ({ name }, { logins, clock }) =>
      refusableLogin(async () => ok(await Promise.race([logins.ended(name), pause(clock, WAIT_MS).then(() => null)]))),
  }),
  operation({
    id: 'revokeCredential',
    method: 'DELETE',
    path: '/api/v1/servers/{name}/login',
    summary: 'Forgets the credential on all nodes, and revokes it at the authorization server where that is possible.',
    query: { principal: { description: "Whose it is; absent for the shared one, or the operator's." } },
    schema: REMOVED,
    errors: { 404: 'There is no such credential.', 503: 'The run-time store does not answer; nothing was revoked.' },
    run: ({ name, query }, { logins }) =>
      refusableLogin(async () => {
        if (await logins.revoke(name, query.get('principal'))) return ok({ removed: true });
        return problem(404, 'credential_unknown', `there is no credential for ${JSON.stringify(name.slice(0, 64))}`);
      }),
  }),
];

/** Runs `run` and maps a GatewayError or a failure of the store to an answer. */
async function refusableLogin<T>(run: () => Promise<ControlAnswer<T>>): Promise<ControlAnswer<T>> {
  try {
    return await run();
  } catch (error) {
    const stored = storeProblem(error instanceof GatewayError ? error.cause : error);
    if (stored instanceof RunTimeProblem) return problem(503, stored.code, stored.message);
    if (!(error instanceof GatewayError)) throw error;
    const { code, message } = error;
    if (code === 'NOT_SENT') return problem(503, 'authorization_server_unreachable', message);
    if (code === 'INVALID_REQUEST') return problem(409, 'login_not_possible', message);
    return problem(422, 'login_refused', message);
  }
}
