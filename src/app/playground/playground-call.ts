import type { SendStep } from '../../control/control-plane.ts';
import type { Downstream } from '../../downstream/downstream.ts';
import type { Principal } from '../../model/client-profile.ts';
import type { Endpoint } from '../../model/exchange.ts';
import { eraOf, type Revision } from '../../model/message.ts';
import { field, text } from '../../protocol/fields.ts';
import { CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, PROTOCOL_VERSION_KEY } from '../../protocol/meta-keys.ts';
import { editMembers, envelope, oneLine, splice } from '../../protocol/splice.ts';
import { type LocalClient, localClient, MAX_INPUT_ROUNDS } from '../local-client.ts';

/** The request, and the client that sends it. JSON texts are sent unchanged. */
export interface PlaygroundRequest {
  readonly method: string;
  /** A JSON object. */
  readonly params: string;
  readonly revision: Revision;
  /** A JSON object. */
  readonly capabilities: string;
}

/** How a call of the playground ended. For an error of the gateway, the outcome that is in the answer. */
type PlayedOutcome = 'RESULT' | 'NOT_SENT' | 'UNKNOWN' | 'REFUSED' | 'CANCELLED';

interface PlayedMessage {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: object;
  readonly result?: {
    readonly resultType?: string;
    /** Failures of tool calls that a model should see are results. */
    readonly _meta?: { readonly 'trunkline/error'?: { readonly outcome?: PlayedOutcome } };
    readonly inputRequests?: Readonly<Record<string, { readonly method: string; readonly params?: object }>>;
  };
  readonly error?: { readonly message?: string; readonly data?: { readonly outcome?: PlayedOutcome } };
}

const CLIENT_INFO = { name: 'trunkline-playground', version: '1' };
const PROGRESS_TOKEN = 'playground';

/**
 * One call of an MCP client that exists only for it: a real session of its revision through the stdio front end. `onStep` gets
 * every message in both directions, and every question that the call waits for.
 */
export class PlaygroundCall {
  /** The last step, as JSON text. Never rejects. */
  readonly ended: Promise<string>;
  readonly #request: PlaygroundRequest;
  readonly #onStep: SendStep;
  readonly #client: LocalClient;
  readonly #startedAt = performance.now();
  /** Takes the answer to each question that the call waits for, by key: `result` or `error` as JSON text. */
  readonly #questions = new Map<string, (member: 'result' | 'error', json: string) => void>();
  #resolve!: (step: string) => void;
  #id = 0;
  #rounds = 0;
  #params: Buffer;

  constructor(
    downstream: Downstream,
    caller: { readonly principal: Principal; readonly endpoint: Endpoint },
    request: PlaygroundRequest,
    onStep: SendStep,
  ) {
    this.#request = request;
    this.#onStep = onStep;
    this.#params = Buffer.from(request.params);
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#client = localClient(downstream, caller.principal, caller.endpoint, (line) => this.#receive(line));
    void this.#client.closed.then(() => this.#end('UNKNOWN', 'the gateway ended the session'));
    if (eraOf(request.revision) === 'stateless') this.#call();
    else this.#initialize();
  }

  /** Returns false if the call does not wait for this answer. `json`: the answer as a client would write it. */
  answer(question: string, member: 'result' | 'error', json: string): boolean {
    const take = this.#questions.get(question);
    this.#questions.delete(question);
    take?.(member, json);
    return take !== undefined;
  }

  /** Sends a cancellation to the server, and ends the call. */
  cancel(reason: string): void {
    const params = JSON.stringify({ requestId: this.#id, reason });
    this.#send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`);
    this.#end('CANCELLED', reason);
  }

  #initialize(): void {
    const { revision, capabilities } = this.#request;
    const info = JSON.stringify(CLIENT_INFO);
    const params = `{"protocolVersion":"${revision}","capabilities":${capabilities},"clientInfo":${info}}`;
    this.#send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`);
  }

  #call(): void {
    this.#id++;
    const { method } = this.#request;
    const params = this.#withMeta();
    this.#send(`{"jsonrpc":"2.0","id":${this.#id},"method":${JSON.stringify(method)},"params":${params}}`);
  }

  /** Returns the params with a progress token and the `_meta` members that the revision requires. */
  #withMeta(): string {
    const bytes = this.#params;
    const { revision, capabilities } = this.#request;
    const object = envelope(bytes);
    const given = field(bytes, object.start, object.end, '_meta');
    const meta = given === null ? Buffer.from('{}') : bytes.subarray(given.start, given.end);
    const members: [string, string][] = [['progressToken', JSON.stringify(PROGRESS_TOKEN)]];
    if (eraOf(revision) === 'stateless') {
      members.push([PROTOCOL_VERSION_KEY, JSON.stringify(revision)]);
      members.push([CLIENT_INFO_KEY, JSON.stringify(CLIENT_INFO)]);
      members.push([CLIENT_CAPABILITIES_KEY, capabilities]);
    }
    const written = splice(meta, editMembers(meta, envelope(meta), members));
    return splice(bytes, editMembers(bytes, object, [['_meta', written]])).toString();
  }

  #send(message: string): void {
    const line = oneLine(Buffer.from(message)).toString();
    this.#step('sent', line);
    this.#client.send(line);
  }

  #step(kind: 'sent' | 'received' | 'question', json: string, needed = false): void {
    this.#onStep(`{"ms":${Math.round(performance.now() - this.#startedAt)},"${kind}":${json}}`, needed);
  }

  #receive(line: string): void {
    const { id, method, params, result, error } = JSON.parse(line) as PlayedMessage;
    this.#step('received', line, method === undefined && id === this.#id);
    if (method !== undefined) {
      if (id !== undefined) this.#asked(id, method, params);
    } else if (id === this.#id) {
      if (error !== undefined) this.#end(error.data?.outcome ?? 'RESULT', null);
      else if (this.#id === 0) {
        this.#send('{"jsonrpc":"2.0","method":"notifications/initialized"}');
        this.#call();
      } else if (result?.resultType === 'input_required') this.#inputRequired(line, result.inputRequests ?? {});
      else this.#end(result?._meta?.['trunkline/error']?.outcome ?? 'RESULT', null);
    } else if (id === undefined && error !== undefined) this.#end('REFUSED', error.message ?? null);
  }

  /** A request of a server in a stateful revision. */
  #asked(id: string | number, method: string, params: object | undefined): void {
    const reply = (member: 'result' | 'error', json: string): void =>
      this.#send(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"${member}":${json}}`);
    if (method === 'ping') reply('result', '{}');
    else this.#question(String(id), method, params, reply);
  }

  /** A round of questions in a stateless revision: the call is repeated when all are answered. */
  #inputRequired(line: string, asked: NonNullable<NonNullable<PlayedMessage['result']>['inputRequests']>): void {
    if (++this.#rounds > MAX_INPUT_ROUNDS) {
      this.cancel(`the server asked for input in more than ${MAX_INPUT_ROUNDS} rounds`);
      return;
    }
    const bytes = Buffer.from(line);
    const object = envelope(bytes);
    const result = field(bytes, object.start, object.end, 'result')!;
    const state = field(bytes, result.start, result.end, 'requestState');
    const answers: string[] = [];
    const keys = Object.keys(asked);
    const again = (): void => {
      if (answers.length < keys.length) return;
      const changes: [string, string | null][] = [
        ['inputResponses', keys.length === 0 ? null : `{${answers.join(',')}}`],
        ['requestState', state === null ? null : text(bytes, state)],
      ];
      const given = this.#params;
      this.#params = splice(given, editMembers(given, envelope(given), changes));
      this.#call();
    };
    for (const [key, { method, params }] of Object.entries(asked)) {
      this.#question(key, method, params, (member, json) => {
        if (member === 'error') {
          // The revision has no error as an answer: the client cancels the call.
          this.cancel('the question was not answered');
          return;
        }
        answers.push(`${JSON.stringify(key)}:${json}`);
        again();
      });
    }
    if (keys.length === 0) again();
  }

  #question(
    key: string,
    method: string,
    params: object | undefined,
    answered: (member: 'result' | 'error', json: string) => void,
  ): void {
    this.#questions.set(key, answered);
    this.#step('question', JSON.stringify({ key, method, params: params ?? {} }));
  }

  #end(outcome: PlayedOutcome, reason: string | null): void {
    this.#questions.clear();
    this.#resolve(JSON.stringify({ ms: Math.round(performance.now() - this.#startedAt), done: { outcome, reason } }));
    this.#client.close();
  }
}
