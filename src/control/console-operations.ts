import { described, flag, object, optional, text } from '../model/schema.ts';
import { bodyOf } from './json-object.ts';
import { type ApiOperation, ok, operation, problem } from './operation.ts';

const MAX_BODY_BYTES = 4 * 1024;
const PROOF = object({
  code: optional(described(text, 'Of a link to the console; good once, within ten minutes.')),
  token: optional(described(text, 'The control token.')),
});
const WRONG_CODE =
  'this link was used, or is older than ten minutes, or of another run of the gateway; trunkline console prints a new one';
const WRONG_TOKEN =
  'this is not the control token: it is in the file control.token of the data folder, or control.token of the configuration';

/** Login and logout at the console. */
export const CONSOLE_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'logIn',
    method: 'POST',
    path: '/api/v1/login',
    summary:
      'Opens a session of the console: sets its cookie, and answers with what requests send as `Trunkline-Csrf`.',
    unauthenticated: true,
    runsAt: 'this-node',
    body: PROOF,
    maxBodyBytes: MAX_BODY_BYTES,
    schema: object({ csrf: text }),
    errors: {
      400: 'The body has neither a code nor a token, or is malformed.',
      401: 'The code was used already, has expired or is unknown; or the token is wrong.',
    },
    run({ body, secure }, { console }) {
      const proof = bodyOf(PROOF, body);
      if (typeof proof === 'string') return problem(400, 'body_malformed', proof);
      const { code, token } = proof;
      if ((code ?? token) === undefined) return problem(400, 'body_malformed', 'give code or token');
      const opened = console.open(proof);
      if (opened === null) return problem(401, 'login_refused', token === undefined ? WRONG_CODE : WRONG_TOKEN);
      return {
        ...ok({ csrf: opened.csrf }),
        headers: ['Set-Cookie', cookie(console.cookieName, opened.cookie, secure)],
      };
    },
  }),
  operation({
    id: 'logOut',
    method: 'DELETE',
    path: '/api/v1/login',
    summary: 'Ends the session of the console that asks.',
    runsAt: 'this-node',
    schema: object({ ended: flag }),
    run({ session, secure }, { console }) {
      if (session === null) return ok({ ended: false });
      console.end(session);
      return {
        ...ok({ ended: true }),
        headers: ['Set-Cookie', `${cookie(console.cookieName, '', secure)}; Max-Age=0`],
      };
    },
  }),
  operation({
    id: 'createConsoleLink',
    method: 'POST',
    path: '/api/v1/console-links',
    summary: 'A link to the console that logs one browser in, within ten minutes.',
    runsAt: 'this-node',
    schema: object({ url: text }),
    run: (_request, plane) => ok({ url: plane.console.link(plane.facts().controlUrl) }),
  }),
];

/** Without `Path` the cookie applies to `api/v1/` of the page that logged in, below any path prefix of a proxy. */
function cookie(name: string, value: string, secure: boolean): string {
  return `${name}=${value}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`;
}
