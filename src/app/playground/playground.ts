import type { PlaygroundPlane, SendStep } from '../../control/control-plane.ts';
import type { PlayBody } from '../../control/playground-schemas.ts';
import { ANONYMOUS, OPERATOR, type Principal } from '../../model/client-profile.ts';
import { AGGREGATE } from '../../model/exchange.ts';
import { duplicateKey, field, text } from '../../protocol/fields.ts';
import { envelope } from '../../protocol/splice.ts';
import type { Components } from '../components.ts';
import { PlaygroundCall } from './playground-call.ts';

/** Limit of concurrent calls, of all pages. */
const MAX_CALLS = 64;
/** Default capabilities of the client of a call. Without roots, because a console has no folders to share. */
const CAPABILITIES = JSON.stringify({
  elicitation: { form: {}, url: {} },
  sampling: {},
  extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } },
});

/** Calls of operators at the console, as clients of any revision. */
export class Playground implements PlaygroundPlane {
  readonly #components: Components;
  readonly #open = new Map<string, PlaygroundCall>();

  constructor(components: Components) {
    this.#components = components;
  }

  async run(body: Buffer, gone: AbortSignal, onStep: SendStep): Promise<string> {
    if (this.#open.size >= MAX_CALLS) return refused(`no more than ${MAX_CALLS} calls of the playground at once`);
    const id = this.#components.random.hex(8);
    onStep(JSON.stringify({ ms: 0, run: id }));
    const play = this.#play(body, onStep);
    if (typeof play === 'string') return play;
    this.#open.set(id, play);
    const leave = (): void => play.cancel('the page went away');
    gone.addEventListener('abort', leave, { once: true });
    try {
      return await play.ended;
    } finally {
      this.#open.delete(id);
      gone.removeEventListener('abort', leave);
    }
  }

  answer(run: string, body: Buffer): boolean | null {
    const play = this.#open.get(run);
    if (play === undefined) return null;
    const given = answerOf(body);
    if (given.cancel !== undefined) play.cancel(given.cancel);
    else return play.answer(given.question, given.member, given.json);
    return true;
  }

  /** Starts the call; returns the last step if that is impossible. */
  #play(body: Buffer, onStep: SendStep): PlaygroundCall | string {
    const { method, server, principal: name, revision } = JSON.parse(body.toString()) as PlayBody;
    const { downstream } = this.#components;
    const twice = repeatedKey(body);
    if (twice !== null) return refused(`the request has two members ${JSON.stringify(twice.slice(0, 64))}: keep one`);
    const principal = this.#principal(name ?? OPERATOR.name);
    if (principal === null) return refused(`there is no agent named ${JSON.stringify(name)}`);
    const endpoint = server == null ? AGGREGATE : downstream.endpoints.server(server, principal);
    if (endpoint === null) return refused(`there is no server ${JSON.stringify(server)} for ${principal.name}`);
    const request = {
      method,
      revision,
      params: member(body, 'params') ?? '{}',
      capabilities: member(body, 'capabilities') ?? CAPABILITIES,
    };
    return new PlaygroundCall(downstream, { principal, endpoint }, request, onStep);
  }

  #principal(name: string): Principal | null {
    if (name === OPERATOR.name) return OPERATOR;
    return this.#components.authenticator.principal(name === ANONYMOUS.name ? ANONYMOUS.id : `agent:${name}`);
  }
}

type Given =
  | { readonly cancel: string }
  | {
      readonly cancel?: undefined;
      readonly question: string;
      readonly member: 'result' | 'error';
      readonly json: string;
    };

/** The caller has checked the body. */
function answerOf(body: Buffer): Given {
  const { question = '', cancel } = JSON.parse(body.toString()) as { question?: string; cancel?: string };
  if (cancel !== undefined) return { cancel };
  const result = member(body, 'result');
  return result === null
    ? { question, member: 'error', json: member(body, 'error') ?? '{}' }
    : { question, member: 'result', json: result };
}

/** Returns a duplicate key in the body or its params: its first value would be sent, but its last one was checked. */
function repeatedKey(body: Buffer): string | null {
  const { start, end } = envelope(body);
  const params = field(body, start, end, 'params');
  return duplicateKey(body, start, end) ?? (params === null ? null : duplicateKey(body, params.start, params.end));
}

/** Returns a member of a JSON object as it was written. */
function member(body: Buffer, key: string): string | null {
  const object = envelope(body);
  const found = field(body, object.start, object.end, key);
  return found === null ? null : text(body, found);
}

function refused(reason: string): string {
  return JSON.stringify({ ms: 0, done: { outcome: 'REFUSED', reason } });
}
