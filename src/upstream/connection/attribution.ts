import type { Clock } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import { relatedTask } from '../../protocol/body.ts';
import { LISTEN, listsChangedBy } from '../../protocol/methods.ts';
import { takesInput } from '../../protocol/stateless/input-required.ts';
import { isAboutTask, type PendingById, type PendingRequest, waitingForTask } from '../calls/pending.ts';
import { isExclusive, isOneClient, type Tenancy } from './session-key.ts';

/** So long a cancelled call may still run and ask, unless its answer, or that of a later ping, shows its end. */
const WITHDRAWN_MS = 10 * 60_000;

/** Notifications about the connection as a whole: on a pipe they belong to no call, even with one in flight. */
const OF_CONNECTION: ReadonlySet<string> = new Set([
  'notifications/resources/updated',
  'notifications/elicitation/complete',
  'notifications/tasks/status',
  'notifications/tasks',
]);

/** What is to be known of the connection that the messages came on. */
interface Source {
  readonly transport: { readonly streamPerRequest: boolean };
  readonly tenancy: Tenancy;
}

/**
 * Which of the calls in flight on one connection a message of its server belongs to. On a request's own stream that is
 * clear. On a pipe it follows from what the message names; the rest goes to the newest call, and only where every call of
 * the connection is of one session or principal.
 *
 * With a request it is stricter, because a question must reach only the client it concerns: where several
 * clients may share the pipe (a principal is not one client), it is put to the only call in flight, and refused when
 * there are several, or when one was taken back and the server has not shown that it knows.
 */
export class Attribution {
  readonly #source: Source;
  readonly #clock: Clock;
  readonly #pending: PendingById;
  /** Clients' calls that were taken back and may still run, by our id; and when that was. */
  readonly #withdrawn = new Map<number, number>();

  constructor(source: Source, clock: Clock, pending: PendingById) {
    this.#source = source;
    this.#clock = clock;
    this.#pending = pending;
  }

  /** The call was taken back and may still run. */
  withdrawn(id: number): void {
    this.#withdrawn.set(id, this.#clock.now());
  }

  /** The call that was taken back is over for the server: it answered all the same, or knows. */
  late(id: number): void {
    this.#withdrawn.delete(id);
  }

  /** Whose message it is; null for no call in particular. */
  of(message: Message, stream: number): PendingRequest | null {
    if (stream !== 0) return this.#pending.get(stream) ?? null;
    const { transport, tenancy } = this.#source;
    const taskId = message.era === 'stateful' ? relatedTask(message) : null;
    if (taskId !== null) {
      const waiting = waitingForTask(this.#pending.inOrder(), taskId);
      // Without a session there is only the task itself to be asked through.
      if (waiting !== null || tenancy.kind === 'principal') return waiting;
    }
    if (transport.streamPerRequest) return null;
    if (OF_CONNECTION.has(message.method) || listsChangedBy(message.method).length > 0) return null;
    if (isExclusive(tenancy)) return this.#newest();
    return message.era === 'stateless' ? this.#only() : null;
  }

  /** Whose question it is; null for none of the calls in flight. */
  concerned(message: Message, stream: number): PendingRequest | null | 'unknown' {
    const { transport, tenancy } = this.#source;
    // A task names itself.
    if (relatedTask(message) !== null) return this.of(message, stream);
    if (stream !== 0 || transport.streamPerRequest || !isExclusive(tenancy) || isOneClient(tenancy)) {
      return this.of(message, stream);
    }
    if (this.#newest() === null && !this.#someWithdrawn()) return null;
    const only = this.#someWithdrawn() ? null : this.#only();
    if (only === null) return 'unknown';
    // A list, say, asks nothing in the vocabulary of a client without a session: the question is no call's.
    return only.exchange!.takesInputRequired && !takesInput(only.method) ? null : only;
  }

  #someWithdrawn(): boolean {
    const before = this.#clock.now() - WITHDRAWN_MS;
    for (const [id, at] of this.#withdrawn) if (at < before) this.#withdrawn.delete(id);
    return this.#withdrawn.size > 0;
  }

  #newest(): PendingRequest | null {
    return this.#pending.last(isCall) ?? null;
  }

  /** Log messages of a stateless server carry no id; with one call in flight there is no doubt whose they are. */
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

/** Of a client, not our own. */
function isCall({ exchange }: PendingRequest): boolean {
  return exchange !== null;
}
