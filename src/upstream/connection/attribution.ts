import type { Clock } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import { relatedTask } from '../../protocol/body.ts';
import { LISTEN, listsChangedBy } from '../../protocol/methods.ts';
import { takesInput } from '../../protocol/stateless/input-required.ts';
import { isAboutTask, type PendingById, type PendingRequest, waitingForTask } from '../calls/pending.ts';
import { isExclusive, isOneClient, type Tenancy } from './session-key.ts';

/** How long a cancelled call may still run and send requests, unless its answer, or that of a later ping, shows that it ended. */
const WITHDRAWN_MS = 10 * 60_000;

/** Notifications about the whole connection: on a pipe they belong to no call, even if one is in flight. */
const OF_CONNECTION: ReadonlySet<string> = new Set([
  'notifications/resources/updated',
  'notifications/elicitation/complete',
  'notifications/tasks/status',
  'notifications/tasks',
]);

/** The properties of the connection that the messages arrive on. */
interface Source {
  readonly transport: { readonly streamPerRequest: boolean };
  readonly tenancy: Tenancy;
}

/**
 * Finds the in-flight call that a message of the server belongs to. On a request's own stream that is known. On a pipe it
 * follows from what the message names; other messages go to the newest call, and only if all calls of the connection belong to
 * one session or principal.
 *
 * Requests follow a stricter rule, because a request must reach only the client that it concerns: if several clients may share
 * the pipe (a principal is not one client), it goes to the only call in flight, and is refused if there are several, or if a
 * call was cancelled and the server has not shown that it knows.
 */
export class Attribution {
  readonly #source: Source;
  readonly #clock: Clock;
  readonly #pending: PendingById;
  /** Cancelled calls of clients that may still run: the time of cancellation by the gateway's id. */
  readonly #withdrawn = new Map<number, number>();

  constructor(source: Source, clock: Clock, pending: PendingById) {
    this.#source = source;
    this.#clock = clock;
    this.#pending = pending;
  }

  /** The call was cancelled and may still run. */
  withdrawn(id: number): void {
    this.#withdrawn.set(id, this.#clock.now());
    this.#forgetOld();
  }

  /** The server has ended the cancelled call: it answered anyway, or has read the cancellation. */
  cancelConfirmed(id: number): void {
    this.#withdrawn.delete(id);
  }

  /** The call that the message belongs to; null for none. */
  of(message: Message, stream: number): PendingRequest | null {
    if (stream !== 0) return this.#pending.get(stream) ?? null;
    const { transport, tenancy } = this.#source;
    const taskId = message.era === 'stateful' ? relatedTask(message) : null;
    if (taskId !== null) {
      const waiting = waitingForTask(this.#pending.inOrder(), taskId);
      // A client without a session can be asked only through the task.
      if (waiting !== null || tenancy.kind === 'principal') return waiting;
    }
    if (transport.streamPerRequest) return null;
    if (OF_CONNECTION.has(message.method) || listsChangedBy(message.method).length > 0) return null;
    if (isExclusive(tenancy)) return this.#newest();
    return message.era === 'stateless' ? this.#only() : null;
  }

  /** The call that the request concerns; null for none of those in flight; 'unknown' if that cannot be decided. */
  callForRequest(message: Message, stream: number): PendingRequest | null | 'unknown' {
    const { transport, tenancy } = this.#source;
    // The request names its task.
    if (relatedTask(message) !== null) return this.of(message, stream);
    if (stream !== 0 || transport.streamPerRequest || !isExclusive(tenancy) || isOneClient(tenancy)) {
      return this.of(message, stream);
    }
    if (this.#newest() === null && !this.#someWithdrawn()) return null;
    const only = this.#someWithdrawn() ? null : this.#only();
    if (only === null) return 'unknown';
    // A list, for example, cannot carry an input request of a client without a session: the request belongs to no call.
    return only.exchange!.takesInputRequired && !takesInput(only.method) ? null : only;
  }

  #someWithdrawn(): boolean {
    this.#forgetOld();
    return this.#withdrawn.size > 0;
  }

  /** They are in the order of their times. */
  #forgetOld(): void {
    const before = this.#clock.now() - WITHDRAWN_MS;
    for (const [id, at] of this.#withdrawn) {
      if (at >= before) return;
      this.#withdrawn.delete(id);
    }
  }

  #newest(): PendingRequest | null {
    return this.#pending.last(isCall) ?? null;
  }

  /** The only call in flight; null if there are several. Log messages of a stateless server carry no id. */
  #only(): PendingRequest | null {
    let only: PendingRequest | null = null;
    for (const pending of this.#pending.values()) {
      if (pending.exchange === null || pending.method === LISTEN || isAboutTask(pending)) continue;
      if (only !== null) return null;
      only = pending;
    }
    return only;
  }
}

/** Whether it is a client's request and not the gateway's own. */
function isCall({ exchange }: PendingRequest): boolean {
  return exchange !== null;
}
