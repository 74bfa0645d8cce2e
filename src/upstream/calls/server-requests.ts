import { CATALOGUE } from '../../model/error-catalogue.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { cancellation, errorAnswer, failureAnswer } from '../../protocol/compose.ts';
import { withId } from '../../protocol/splice.ts';
import { isAboutTask, type PendingRequest } from './pending.ts';

/** Requests of a server that wait for an answer, by id lexeme, each with its call, if any. Each is answered at most once. */
export class ServerRequests {
  readonly #connection: { answer(parts: readonly Buffer[]): void };
  readonly #notified: (message: Message) => void;
  readonly #open = new Map<string, PendingRequest | null>();

  /** `notified`: takes notifications for a client that was asked outside any call. */
  constructor(connection: { answer(parts: readonly Buffer[]): void }, notified: (message: Message) => void) {
    this.#connection = connection;
    this.#notified = notified;
  }

  get size(): number {
    return this.#open.size;
  }

  /** The call of this request, null for none; undefined if no such request is open. */
  get(id: string): PendingRequest | null | undefined {
    return this.#open.get(id);
  }

  has(id: string): boolean {
    return this.#open.has(id);
  }

  /** Whether a request that belongs to a call, and not to a task, is open. */
  get engaged(): boolean {
    for (const pending of this.#open.values()) if (pending !== null && !isAboutTask(pending)) return true;
    return false;
  }

  /** Registers the request and sends the server its answer. */
  answerWith({ id }: Message, pending: PendingRequest | null, answer: Promise<Message>): void {
    this.#open.set(id, pending);
    pending?.pauseDeadline?.();
    answer.then(
      (given) => {
        pending?.resumeDeadline?.();
        if (this.#open.delete(id)) this.#connection.answer(withId(given, id));
      },
      (cause: unknown) => {
        pending?.resumeDeadline?.();
        if (this.#open.delete(id)) this.#connection.answer([refusal(id, cause).bytes]);
      },
    );
  }

  /** The call is lost: its open requests are cancelled at the client and end when the client answers. */
  lost(pending: PendingRequest): void {
    for (const [id, asked] of this.#open) {
      if (asked !== pending) continue;
      this.#open.set(id, null);
      pending.exchange?.emit(calledOff(id));
    }
  }

  /** The connection has ended: no request can be answered any more. */
  close(): void {
    for (const [id, asked] of this.#open) {
      if (asked === null) this.#notified(calledOff(id));
      else asked.exchange?.emit(calledOff(id));
    }
    this.#open.clear();
  }
}

/** The cancellation that the client gets, as if the server had sent it. */
function calledOff(id: string): Message {
  return cancellation(id, 'the connection it came on is lost', 'stateful');
}

/** An error for the server. For a client that lacks the capability, it is METHOD_NOT_FOUND. */
function refusal(id: string, cause: unknown): Message {
  if (!(cause instanceof GatewayError))
    return errorAnswer(id, CATALOGUE.INTERNAL.rpc, 'the client could not be asked', null, 'stateful');
  if (cause.code !== 'MISSING_CAPABILITY') return failureAnswer(id, cause, 'stateful');
  return errorAnswer(id, CATALOGUE.METHOD_NOT_FOUND.rpc, cause.message, null, 'stateful');
}
