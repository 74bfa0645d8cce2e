import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import { isUrlMode, notDeclared, undeclared } from '../../protocol/askable.ts';
import { withRelatedTask } from '../../protocol/body.ts';
import { request } from '../../protocol/compose.ts';
import { editObject } from '../../protocol/splice.ts';
import { type InputRequest, readInputRequired } from '../../protocol/stateless/input-required.ts';
import { isResult } from '../own-results.ts';
import type { TaskCalls } from './task-calls.ts';

/** Questions of one task over its life, and the length of the keys they are remembered by. */
const MAX_KEYS = 1_000;
const MAX_KEY_BYTES = 1_024;

/** Whom a task's questions go to. */
export interface Asked {
  readonly exchange: Exchange;
  readonly related: string | null;
}

/**
 * The questions of stateless servers while their tasks run, for clients that have to be asked by a request: each is
 * asked once over the life of its task, all that are open at once, and what the client says goes up with
 * `tasks/update`. A key that was answered may still be listed for a while; it is not asked again. Other errors of the
 * client's than to an elicitation cannot be sent to the server, and end the wait.
 */
export class TaskInputs {
  readonly #calls: TaskCalls;
  readonly #random: Random;
  /** Keys that were answered or are being asked, by task. */
  readonly #keys = new Map<string, Set<string>>();

  constructor(calls: TaskCalls, random: Random) {
    this.#calls = calls;
    this.#random = random;
  }

  /**
   * null when the server asks nothing new. Else resolves when the client has answered: with null, or with how the wait
   * for the task ends because it could not be asked.
   */
  open(record: TaskRecord, message: Message, asked: Asked): Promise<Outcome | null> | null {
    if (record.status !== 'input_required') return null;
    const required = readInputRequired(message);
    if (typeof required === 'string') return null;
    const keys = this.#keys.get(record.key) ?? new Set<string>();
    const fresh = required.requests.filter(({ key }) => !keys.has(key.toString()));
    if (fresh.length === 0) return null;
    const refused = excess(record, keys, fresh) ?? refusal(record, message.bytes, fresh, asked);
    if (refused !== null) return Promise.resolve(refused);
    this.#keys.set(record.key, keys);
    for (const { key } of fresh) keys.add(key.toString());
    return this.#ask(record, message.bytes, fresh, keys, asked);
  }

  /** How many tasks have been asked something and are not forgotten. */
  get size(): number {
    return this.#keys.size;
  }

  /** Nothing more is asked for this task. */
  forget({ key }: TaskRecord): void {
    this.#keys.delete(key);
  }

  async #ask(
    record: TaskRecord,
    bytes: Buffer,
    fresh: readonly InputRequest[],
    keys: Set<string>,
    asked: Asked,
  ): Promise<Outcome | null> {
    let answers: readonly Message[];
    try {
      answers = await Promise.all(fresh.map((question) => asked.exchange.ask(this.#question(bytes, question, asked))));
    } catch (cause) {
      // The client is gone or could not be asked: the next caller that waits for the task is asked anew.
      for (const { key } of fresh) keys.delete(key.toString());
      return failure(cause instanceof GatewayError ? cause : new GatewayError('INTERNAL', String(cause), { cause }));
    }
    const ended = answers.find((given, i) => given.kind === 'error' && fresh[i]!.method !== 'elicitation/create');
    if (ended !== undefined) {
      for (const { key } of fresh) keys.delete(key.toString());
      return answer(ended);
    }
    const responses = Buffer.concat(
      fresh.flatMap(({ key }, i) => [Buffer.from(i === 0 ? '' : ','), key, COLON, responseOf(answers[i]!)]),
    );
    const more = `,"inputResponses":{${responses.toString()}}`;
    const { principal } = asked.exchange.client;
    const outcome = await this.#calls.own(record, principal, 'tasks/update', null, more);
    // What never arrived is sent again: the client is asked again.
    if (outcome.kind === 'failure') for (const { key } of fresh) keys.delete(key.toString());
    return isResult(outcome) ? null : outcome;
  }

  /** The question in stateful words; one that opens a page has an id there. */
  #question(bytes: Buffer, { method, params }: InputRequest, { related }: Asked): Message {
    const opens = method === 'elicitation/create' && isUrlMode(bytes, params);
    const changes = opens ? [['elicitationId', `"${this.#random.hex(16)}"`] as const] : [];
    const body = params === null ? '{}' : editObject(bytes, params, changes);
    return withRelatedTask(request(method, `"${this.#random.hex(8)}"`, body, 'stateful'), related);
  }
}

/** These rounds know results only: an elicitation that the client answers with an error was not accepted. */
function responseOf(given: Message): Buffer {
  return given.kind === 'error' ? DECLINED : withRelatedTask(given, null).body;
}

/** How the wait ends where the server asks more than can be remembered as asked. */
function excess({ server }: TaskRecord, keys: ReadonlySet<string>, fresh: readonly InputRequest[]): Outcome | null {
  if (keys.size + fresh.length <= MAX_KEYS && fresh.every(({ key }) => key.length <= MAX_KEY_BYTES)) return null;
  const text = `${server} asks more than ${MAX_KEYS} questions in a task, or under keys of more than ${MAX_KEY_BYTES} bytes`;
  return failure(new GatewayError('UPSTREAM_PROTOCOL', text, { server }));
}

/** How the wait ends where the client did not declare what it would have to be asked (proto:S4). */
function refusal(record: TaskRecord, bytes: Buffer, requests: readonly InputRequest[], asked: Asked): Outcome | null {
  for (const { method, params } of requests) {
    const missing = undeclared(asked.exchange.client.capabilities, method, bytes, params);
    if (missing === null) continue;
    return answer(notDeclared(record.server, method, missing));
  }
  return null;
}

const COLON = Buffer.from(':');
const DECLINED = Buffer.from('{"action":"cancel"}');
