import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { missingCapability } from '../protocol/client-capabilities.ts';
import { result } from '../protocol/compose.ts';
import { field, isObject, type Range } from '../protocol/fields.ts';
import { inputRequest } from '../protocol/stateless/input-required.ts';

interface OpenQuestion {
  /** The id of the server's request, as written. */
  readonly serverId: string;
  readonly method: string;
  /** The value of its member in `inputRequests`. */
  readonly json: Buffer;
  resolve(answer: Message): void;
  reject(error: GatewayError): void;
}

/**
 * Input requests of a stateful server to a stateless client, by the keys under which the client answers. Keys (prefix and
 * number) are never reused, so that a late answer is not taken for another request's.
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

  get bytes(): number {
    return this.#open.values().reduce((sum, { json }) => sum + json.length, 0);
  }

  ask({ id: serverId, method, bytes, bodyStart, bodyEnd }: Message): Promise<Message> {
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const json = inputRequest(method, bytes, bodyStart < 0 ? null : { start: bodyStart, end: bodyEnd });
    this.#open.set(`${this.#prefix}${++this.#count}`, { serverId, method, json, resolve, reject });
    return promise;
  }

  /** The `inputRequests` object of all requests without an answer. */
  asJson(): Buffer {
    const members = Array.from(this.#open, ([key, { json }], i) => [
      Buffer.from(`${i === 0 ? '' : ','}"${key}":`),
      json,
    ]);
    return Buffer.concat([OPEN, ...members.flat(), CLOSE]);
  }

  /** Resolves the requests that the object answers, and ignores its other members. */
  take(bytes: Buffer, responses: Range): void {
    for (const [key, question] of this.#open) {
      const given = field(bytes, responses.start, responses.end, key);
      if (!isObject(bytes, given)) continue;
      this.#open.delete(key);
      question.resolve(result('0', bytes.subarray(given.start, given.end), 'stateful'));
    }
  }

  /** The server cancels the request with this id. */
  cancel(serverId: string): void {
    const error = new GatewayError('CANCELLED', 'the server cancelled its request');
    this.#reject((question) => (question.serverId === serverId ? error : null));
  }

  /** Rejects requests that a client with these capabilities does not support. */
  refuseUndeclared(capabilities: string): void {
    this.#reject(({ method, json }) =>
      missingCapability(capabilities, method, json, field(json, 0, json.length, 'params')) === null
        ? null
        : missing(method),
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

/** The error for a server's request that the client did not declare to support. */
export function missing(method: string): GatewayError {
  return new GatewayError('MISSING_CAPABILITY', `the client did not declare what ${method} needs`);
}

const OPEN = Buffer.from('{');
const CLOSE = Buffer.from('}');
