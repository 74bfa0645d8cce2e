import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';

/** The fate of a client's answer: it ended an ask, came too late for one, or names an id that was never issued. */
export type AnswerStatus = 'taken' | 'late' | 'unknown';

/** The exchange that an ask belongs to. `likely`: it may not, so the ask outlives the exchange's answer. */
export interface AskOwner {
  readonly exchange: object;
  readonly likely: boolean;
}

/** Identifies a server's request: by its id within a call; outside of calls by its server as well. */
interface AskName {
  /** Empty matches any server. */
  readonly server: string;
  /** The id that the server gave its request, as written. */
  readonly id: string;
}

/** `token`: the server's progress token, as written; empty for none. */
interface AskOfServer extends AskName {
  readonly token: string;
}

/** Deadline of asks that belong to no call; an ask of a call has the deadline of the call. */
const ASK_MS = 15 * 60_000;
/** Ids that this process issued: its sessions may be put away and loaded again, and must not issue an id twice. */
let issued = 0;

interface PendingAsk {
  /** Null for an ask that belongs to no exchange, or no longer does. */
  owner: AskOwner | null;
  readonly name: AskOfServer;
  /** Called when the deadline passes without an answer. */
  readonly expired: (id: string) => void;
  /** Cancels the deadline; null without one. */
  disarm: (() => void) | null;
  resolve(answer: Message): void;
  reject(error: GatewayError): void;
}

/**
 * Requests to one client that wait for its answer. Their ids are strings of the gateway, so that the ids of several servers
 * cannot collide in one session. The prefix is new with every process, so that the answer to an ask of an earlier process
 * does not end an ask of this one.
 */
export class PendingAsks {
  readonly #prefix: string;
  readonly #clock: Clock;
  readonly #open = new Map<string, PendingAsk>();

  constructor(prefix: string, clock: Clock) {
    this.#prefix = prefix;
    this.#clock = clock;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Registers an ask. `id` is the lexeme to send it under, and to cancel it by in `expired`. */
  open(
    owner: AskOwner | null,
    name: AskOfServer,
    expired: (id: string) => void,
  ): { readonly id: string; readonly answer: Promise<Message> } {
    const id = `"${this.#prefix}-${++issued}"`;
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const disarm = owner === null ? this.#armed(id) : null;
    this.#open.set(id, { owner, name, expired, disarm, resolve, reject });
    return { id, answer: promise };
  }

  /** Ends the ask that the client's answer names. */
  take(answer: Message): AnswerStatus {
    const id = answer.id;
    const ask = this.#open.get(id);
    if (ask !== undefined) {
      this.#end(id, ask);
      ask.resolve(answer);
      return 'taken';
    }
    return this.#wasIssued(id) ? 'late' : 'unknown';
  }

  /** Whose request is open under this id; null if none is. */
  nameOf(id: string): AskOfServer | null {
    return this.#open.get(id)?.name ?? null;
  }

  /** The server cancelled its request: ends the ask and returns the id that the client knows; null if there is no such ask. */
  cancel(exchange: object | null, name: AskName): string | null {
    for (const [id, ask] of this.#open) {
      if ((ask.owner?.exchange ?? null) !== exchange || !isSame(ask.name, name)) continue;
      this.#end(id, ask);
      ask.reject(new GatewayError('CANCELLED', 'the server cancelled its request'));
      return id;
    }
    return null;
  }

  /** The exchange was answered: asks that only likely belonged to it stay open without an exchange. */
  release(exchange: object): void {
    for (const [id, ask] of this.#open) {
      if (ask.owner?.exchange !== exchange || !ask.owner.likely) continue;
      ask.owner = null;
      ask.disarm = this.#armed(id);
    }
  }

  /** Ends all asks of one exchange and returns their ids: its call has ended, or its client is gone. */
  abandon(exchange: object | null, error: GatewayError): string[] {
    const ids: string[] = [];
    for (const [id, ask] of this.#open) {
      if ((ask.owner?.exchange ?? null) !== exchange) continue;
      this.#end(id, ask);
      ask.reject(error);
      ids.push(id);
    }
    return ids;
  }

  abandonAll(error: GatewayError): void {
    for (const [id, ask] of this.#open) {
      this.#end(id, ask);
      ask.reject(error);
    }
  }

  #armed(id: string): () => void {
    return this.#clock.after(ASK_MS, () => {
      const ask = this.#open.get(id);
      this.#open.delete(id);
      ask?.expired(id);
      ask?.reject(new GatewayError('TIMEOUT', 'the client did not answer'));
    });
  }

  #end(id: string, ask: PendingAsk): void {
    this.#open.delete(id);
    ask.disarm?.();
  }

  #wasIssued(id: string): boolean {
    const head = `"${this.#prefix}-`;
    if (!id.startsWith(head) || !id.endsWith('"')) return false;
    const number = Number(id.slice(head.length, -1));
    return Number.isInteger(number) && number > 0 && number <= issued;
  }
}

function isSame(one: AskName, other: AskName): boolean {
  return one.id === other.id && (one.server === '' || other.server === '' || one.server === other.server);
}
