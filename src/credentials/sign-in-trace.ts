import type { GuardedFetch } from '../http/client/guarded-fetch.ts';
import type { Clock } from '../model/clock.ts';
import { MASK } from '../model/secret.ts';
import type { SignInStep } from '../model/sign-in.ts';
import { messageOf } from '../model/thrown.ts';

const MAX_STEPS = 60;
const MAX_SERVERS = 256;
const MAX_TEXT = 16 * 1024;
/** Parameters of requests that are shown; others may be secrets. */
const SHOWN =
  /^(?:grant_type|client_id|redirect_uris?|scope|resource|audience|response_types?|grant_types|client_name|token_endpoint_auth_method|application_type|code_challenge|code_challenge_method|subject_token_type|requested_token_type|token_type_hint|prompt|error|error_description|iss)$/;
/** The same for answers that contain secrets. */
const SHOWN_OF_ANSWER =
  /^(?:token_type|expires_in|scope|issued_token_type|error|error_description|error_uri|client_id|client_id_issued_at|client_secret_expires_at|client_name|redirect_uris|grant_types|response_types|token_endpoint_auth_method|application_type|interval|verification_uri)$/;

/**
 * Requests and answers of sign-ins at servers and of renewals, without secrets: in memory, bounded, of this node. A new sign-in
 * drops the earlier steps of its server.
 */
export class SignInTrace {
  readonly #clock: Pick<Clock, 'now' | 'wall'>;
  readonly #steps = new Map<string, SignInStep[]>();

  constructor(clock: Pick<Clock, 'now' | 'wall'>) {
    this.#clock = clock;
  }

  of(server: string): readonly SignInStep[] {
    return this.#steps.get(server) ?? [];
  }

  begin(server: string): void {
    this.#steps.delete(server);
  }

  /** Records a URL that a browser opens or has come back with. */
  browser(server: string, step: 'authorization' | 'redirect', url: string): void {
    const { searchParams } = new URL(url);
    const error = searchParams.get('error');
    const problem = error === null ? null : `${error} ${searchParams.get('error_description') ?? ''}`.trim();
    const request = shownOf(searchParams, SHOWN);
    this.#add(server, { step, method: null, url, status: null, ms: null, request, answer: null, problem });
  }

  /** The same fetch, which records each request for the server. */
  through(server: string, fetch: GuardedFetch): GuardedFetch {
    return async (target, init) => {
      const from = this.#clock.now();
      const [step, sent] = kindOf(new URL(target), init);
      const request = shownOf(sent, SHOWN);
      const asked = { step, method: init?.method ?? 'GET', url: String(target), request };
      const ms = (): number => Math.round(this.#clock.now() - from);
      try {
        const response = await fetch(target, init);
        const { answer, problem } = await answerOf(response.clone(), step, sent);
        this.#add(server, { ...asked, status: response.status, ms: ms(), answer, problem });
        return response;
      } catch (error) {
        const problem = messageOf(error);
        this.#add(server, { ...asked, status: null, ms: ms(), answer: null, problem });
        throw error;
      }
    };
  }

  #add(server: string, step: Omit<SignInStep, 'at'>): void {
    const steps = this.#steps.get(server) ?? [];
    steps.push({ at: this.#clock.wall(), ...step, url: withoutSecrets(step.url) });
    if (steps.length > MAX_STEPS) steps.shift();
    this.#steps.delete(server);
    this.#steps.set(server, steps);
    if (this.#steps.size > MAX_SERVERS) this.#steps.delete(this.#steps.keys().next().value!);
  }
}

/** The step and the parameters of a request, all of which this module makes. */
function kindOf({ pathname }: URL, init: RequestInit | undefined): readonly [SignInStep['step'], URLSearchParams] {
  // Metadata is shown whole. An endpoint may have such a path, too, but gets POST requests.
  if ((init?.method ?? 'GET') === 'GET' && pathname.includes('/.well-known/')) {
    const isResource = pathname.includes('/.well-known/oauth-protected-resource');
    return [isResource ? 'resource metadata' : 'issuer metadata', new URLSearchParams()];
  }
  const body = init?.body instanceof URLSearchParams ? init.body.toString() : String(init?.body ?? '');
  if (!body.startsWith('{')) {
    const sent = new URLSearchParams(body);
    if (sent.has('grant_type')) return ['token', sent];
    return [sent.has('token') ? 'revocation' : 'user code', sent];
  }
  const sent = new URLSearchParams();
  for (const [name, value] of Object.entries(JSON.parse(body) as object)) sent.set(name, String(value));
  return sent.has('jsonrpc') ? ['challenge', new URLSearchParams()] : ['registration', sent];
}

function shownOf(sent: URLSearchParams, shown: RegExp): Record<string, string> {
  return Object.fromEntries([...sent].map(([name, value]) => [name, shown.test(name) ? value : MASK]));
}

async function answerOf(
  response: Response,
  step: SignInStep['step'],
  sent: URLSearchParams,
): Promise<Pick<SignInStep, 'answer' | 'problem'>> {
  if (step === 'challenge') {
    const challenge = response.headers.get('www-authenticate');
    const problem = challenge === null ? 'it answers without WWW-Authenticate' : null;
    return { answer: challenge, problem: response.status === 401 ? problem : 'it asks for no credentials' };
  }
  let text = await response.text();
  // Some authorization servers repeat the request in a refusal.
  for (const [name, value] of sent) if (!SHOWN.test(name) && value !== '') text = text.replaceAll(value, MASK);
  const document = step === 'resource metadata' || step === 'issuer metadata';
  const problem = response.ok ? null : `HTTP ${response.status}`;
  try {
    const answer = JSON.parse(text) as Readonly<Record<string, unknown>>;
    if (typeof answer !== 'object' || answer === null)
      return { answer: null, problem: problem ?? 'it is no JSON object' };
    const refused = typeof answer['error'] === 'string' ? answer['error'] : problem;
    if (document) return { answer: text.length > MAX_TEXT ? 'too long to be shown' : answer, problem };
    const entries = Object.entries(answer).map(([name, value]) => [name, SHOWN_OF_ANSWER.test(name) ? value : MASK]);
    return { answer: Object.fromEntries(entries), problem: refused };
  } catch {
    return { answer: null, problem: problem ?? 'it answers with something that is no JSON' };
  }
}

/** Masks what only the browser should have. */
function withoutSecrets(url: string): string {
  return url.replaceAll(/([?&](?:code|state|user_code)=)[^&#]*/g, `$1${MASK}`);
}
