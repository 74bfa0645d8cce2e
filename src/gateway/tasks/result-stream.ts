import type { ClientProfile } from '../../model/client-profile.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { undeclared } from '../../protocol/askable.ts';
import { bodyLexeme, withRelatedTask } from '../../protocol/body.ts';
import { result } from '../../protocol/compose.ts';
import type { Range } from '../../protocol/fields.ts';
import { inputRequest, isInputRequest, MAX_INPUT_REQUESTS } from '../../protocol/stateless/input-required.ts';

interface StreamQuestion {
  readonly asked: Message;
  readonly json: Buffer;
  resolve(answer: Message): void;
  reject(error: GatewayError): void;
}

/**
 * Our own `tasks/result` at a stateful server for a client that cannot be asked by requests: what the server asks on it
 * is held as questions under keys, shown with `tasks/get` and answered by `tasks/update`.
 */
export class ResultStream implements Exchange {
  readonly id: string;
  readonly request: Message;
  readonly client: ClientProfile;
  readonly takesInputRequired = false;
  cancelled: string | null = null;
  onCancel: ((reason: string) => void) | null = null;
  readonly #taskId: string;
  /** Makes keys that no earlier stream of the task has used: a key means one question for ever. */
  readonly #prefix: string;
  readonly #questions = new Map<string, StreamQuestion>();
  readonly #waiting = new Set<() => void>();
  #count = 0;
  #open = true;

  constructor(id: string, request: Message, client: ClientProfile, taskId: string, prefix: string) {
    this.id = id;
    this.request = request;
    this.client = client;
    this.#taskId = taskId;
    this.#prefix = prefix;
  }

  get isOpen(): boolean {
    return this.#open;
  }

  /** All that is open, as the object of `inputRequests`; null for nothing. */
  get questions(): Buffer | null {
    if (this.#questions.size === 0) return null;
    const parts: Buffer[] = [];
    for (const [key, { json }] of this.#questions) {
      parts.push(Buffer.from(`${parts.length === 0 ? '{' : ','}${JSON.stringify(key)}:`), json);
    }
    return Buffer.concat([...parts, CLOSE]);
  }

  /** Of what belongs to the call, only the cancellation of a question matters. */
  emit(notification: Message): void {
    if (notification.method !== 'notifications/cancelled') return;
    const id = bodyLexeme(notification, 'requestId') ?? '';
    for (const [key, question] of this.#questions) {
      if (question.asked.id !== id) continue;
      this.#questions.delete(key);
      question.reject(new GatewayError('CANCELLED', 'the server called its request off'));
    }
  }

  ask(asked: Message): Promise<Message> {
    const { method, bytes } = asked;
    const missing = undeclared(this.client.capabilities, method, bytes, bodyOf(asked));
    if (missing !== null || !isInputRequest(method)) {
      return Promise.reject(new GatewayError('MISSING_CAPABILITY', `the client cannot be asked for ${method}`));
    }
    if (!this.#open || this.#questions.size >= MAX_INPUT_REQUESTS) {
      return Promise.reject(new GatewayError('OVERLOADED', 'too many requests wait for an answer of the client'));
    }
    return new Promise((resolve, reject) => {
      const plain = withRelatedTask(asked, null);
      const json = inputRequest(method, plain.bytes, bodyOf(plain));
      this.#questions.set(`${this.#prefix}-${++this.#count}`, { asked, json, resolve, reject });
      this.#wake();
    });
  }

  /** The client's answer to the question under this key; an answer to one that is not open is ignored. */
  answer(key: string, response: Buffer): void {
    const question = this.#questions.get(key);
    if (question === undefined) return;
    this.#questions.delete(key);
    question.resolve(withRelatedTask(result('0', response, 'stateful'), this.#taskId));
  }

  /** Runs once, when something was asked or the stream has ended. */
  whenHeard(tell: () => void): () => void {
    this.#waiting.add(tell);
    return () => this.#waiting.delete(tell);
  }

  /** The server has answered, or cannot any more. */
  ended(): void {
    this.#open = false;
    for (const { reject } of this.#questions.values()) {
      reject(new GatewayError('CANCELLED', 'the task this request belongs to is not waited for any more'));
    }
    this.#questions.clear();
    this.#wake();
  }

  cancel(reason: string): void {
    if (this.cancelled !== null) return;
    this.cancelled = reason;
    this.onCancel?.(reason);
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const tell of waiting) tell();
  }
}

function bodyOf({ bodyStart: start, bodyEnd: end }: Message): Range | null {
  return start < 0 ? null : { start, end };
}

const CLOSE = Buffer.from('}');
