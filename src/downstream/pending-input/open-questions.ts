import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { undeclared } from '../../protocol/askable.ts';
import { result } from '../../protocol/compose.ts';
import { field, type Range } from '../../protocol/fields.ts';
import { inputRequest } from '../../protocol/stateless/input-required.ts';

interface OpenQuestion {
  /** The id the server gave its request, as written. */
  readonly serverId: string;
  readonly method: string;
  /** As a member of `inputRequests`. */
  readonly json: Buffer;
  resolve(answer: Message): void;
  reject(error: GatewayError): void;
}

/** What a stateful server wants to know of a stateless client, by the keys it is answered under. */
export class OpenQuestions {
  readonly #open = new Map<string, OpenQuestion>();
  #count = 0;

  get size(): number {
    return this.#open.size;
  }

  /** Keys are unique in the life of the call, so that a late answer is not taken for another question's. */
  ask(request: Message): Promise<Message> {
    const key = `ask${++this.#count}`;
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const { id: serverId, method, bytes, bodyStart, bodyEnd } = request;
    const params = bodyStart < 0 ? null : { start: bodyStart, end: bodyEnd };
    this.#open.set(key, { serverId, method, json: inputRequest(method, bytes, params), resolve, reject });
    return promise;
  }

  /** The object of all that is not answered yet. */
  asJson(): Buffer {
    const parts: Buffer[] = [];
    for (const [key, { json }] of this.#open) {
      parts.push(Buffer.from(`${parts.length === 0 ? '{' : ','}"${key}":`), json);
    }
    parts.push(Buffer.from('}'));
    return Buffer.concat(parts);
  }

  /** Takes the members of the object that answer a question, and ignores the rest. */
  take(bytes: Buffer, responses: Range): void {
    for (const [key, question] of this.#open) {
      const given = field(bytes, responses.start, responses.end, key);
      if (given === null || bytes[given.start] !== 0x7b) continue;
      this.#open.delete(key);
      question.resolve(result('0', bytes.subarray(given.start, given.end), 'stateful'));
    }
  }

  /** The server does not want to know any more. */
  callOff(serverId: string): void {
    for (const [key, question] of this.#open) {
      if (question.serverId !== serverId) continue;
      this.#open.delete(key);
      question.reject(new GatewayError('CANCELLED', 'the server called its request off'));
      return;
    }
  }

  /** The client's present request does not declare what these need. */
  refuseUndeclared(capabilities: string): void {
    for (const [key, question] of this.#open) {
      const { method, json } = question;
      if (undeclared(capabilities, method, json, field(json, 0, json.length, 'params')) === null) continue;
      this.#open.delete(key);
      question.reject(missing(method));
    }
  }

  end(error: GatewayError): void {
    for (const question of this.#open.values()) question.reject(error);
    this.#open.clear();
  }
}

/** The answer to a server whose request the client did not declare to take. */
export function missing(method: string): GatewayError {
  return new GatewayError('MISSING_CAPABILITY', `the client did not declare what ${method} needs`);
}
