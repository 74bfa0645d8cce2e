import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { undeclared } from '../protocol/askable.ts';
import { result } from '../protocol/compose.ts';
import { field, isObject, type Range } from '../protocol/fields.ts';
import { inputRequest } from '../protocol/stateless/input-required.ts';

interface OpenQuestion {
  /** The id the server gave its request, as written. */
  readonly serverId: string;
  readonly method: string;
  /** As a member of `inputRequests`. */
  readonly json: Buffer;
  resolve(answer: Message): void;
  reject(error: GatewayError): void;
}

/**
 * What a stateful server asks of a stateless client, by the keys under which the client answers. A key means one question for
 * ever: keys are the prefix and a number, so that a late answer is not taken for another question's.
 */
export class OpenQuestions {
  readonly #prefix: string;
  readonly #open = new Map<string, OpenQuestion>();
  #count = 0;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  get size(): number {
    return this.#open.size;
  }

  ask({ id: serverId, method, bytes, bodyStart, bodyEnd }: Message): Promise<Message> {
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const json = inputRequest(method, bytes, bodyStart < 0 ? null : { start: bodyStart, end: bodyEnd });
    this.#open.set(`${this.#prefix}${++this.#count}`, { serverId, method, json, resolve, reject });
    return promise;
  }

  /** The object of all that is not answered yet. */
  asJson(): Buffer {
    const members = Array.from(this.#open, ([key, { json }], i) => [
      Buffer.from(`${i === 0 ? '' : ','}"${key}":`),
      json,
    ]);
    return Buffer.concat([OPEN, ...members.flat(), CLOSE]);
  }

  /** Takes the members of the object that answer a question, and ignores the rest. */
  take(bytes: Buffer, responses: Range): void {
    for (const [key, question] of this.#open) {
      const given = field(bytes, responses.start, responses.end, key);
      if (!isObject(bytes, given)) continue;
      this.#open.delete(key);
      question.resolve(result('0', bytes.subarray(given.start, given.end), 'stateful'));
    }
  }

  /** The server takes back the request with this id. */
  callOff(serverId: string): void {
    const error = new GatewayError('CANCELLED', 'the server cancelled its request');
    this.#reject((question) => (question.serverId === serverId ? error : null));
  }

  /** Rejects what a client with these capabilities cannot be asked. */
  refuseUndeclared(capabilities: string): void {
    this.#reject(({ method, json }) =>
      undeclared(capabilities, method, json, field(json, 0, json.length, 'params')) === null ? null : missing(method),
    );
  }

  end(error: GatewayError): void {
    this.#reject(() => error);
  }

  #reject(why: (question: OpenQuestion) => GatewayError | null): void {
    for (const [key, question] of this.#open) {
      const error = why(question);
      if (error === null) continue;
      this.#open.delete(key);
      question.reject(error);
    }
  }
}

/** The answer to a server whose request the client did not declare to take. */
export function missing(method: string): GatewayError {
  return new GatewayError('MISSING_CAPABILITY', `the client did not declare what ${method} needs`);
}

const OPEN = Buffer.from('{');
const CLOSE = Buffer.from('}');
