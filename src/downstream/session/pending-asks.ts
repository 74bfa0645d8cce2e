import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';

/** What became of a client's answer: it ended an ask, came too late for one, or belongs to nothing we ever asked. */
export type AnswerFate = 'taken' | 'late' | 'unknown';

/** The exchange an ask belongs to, or likely does: then it outlives the answer. */
export interface AskOwner {
  readonly exchange: object;
  readonly likely: boolean;
}

/** What a server's request is known by: on one connection by its id alone, outside of calls by its server as well. */
interface AskName {
  /** Empty where that goes without saying. */
  readonly server: string;
  /** The id the server gave its request, as written. */
  readonly id: string;
}

/** How long a client may think about what belongs to no call; what belongs to one has that call's deadline. */
const ASK_MS = 15 * 60_000;

interface PendingAsk {
  /** null for one that belongs to no exchange, or none any more. */
  owner: AskOwner | null;
  readonly name: AskName;
  /** No caller waits for the answer any more, because it took too long. */
  readonly expired: (id: string) => void;
  /** Stops its deadline, where it has one. */
  disarm: (() => void) | null;
  resolve(answer: Message): void;
  reject(error: GatewayError): void;
}

/**
 * Requests to one client that wait for its answer. Their ids are our own strings, so that the ids of many servers
 * cannot meet in one session; the prefix is new with every process, so that an answer to an ask of an earlier life
 * does not end an ask of this one.
 */
export class PendingAsks {
  readonly #prefix: string;
  readonly #clock: Clock;
  readonly #open = new Map<string, PendingAsk>();
  #count = 0;

  constructor(prefix: string, clock: Clock) {
    this.#prefix = prefix;
    this.#clock = clock;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Registers an ask; `id` is the lexeme to send it under, and to cancel it by when it has `expired`. */
  open(
    owner: AskOwner | null,
    name: AskName,
    expired: (id: string) => void,
  ): { readonly id: string; readonly answer: Promise<Message> } {
    const id = `"${this.#prefix}-${++this.#count}"`;
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const disarm = owner === null ? this.#armed(id) : null;
    this.#open.set(id, { owner, name, expired, disarm, resolve, reject });
    return { id, answer: promise };
  }

  /** Takes the client's answer to the ask it names. */
  take(answer: Message): AnswerFate {
    const id = answer.id;
    const ask = this.#open.get(id);
    if (ask !== undefined) {
      this.#end(id, ask);
      ask.resolve(answer);
      return 'taken';
    }
    return this.#wasIssued(id) ? 'late' : 'unknown';
  }

  /** The server cancelled its request: the ask ends, and `id` is what the client knows it by. Null for no such ask. */
  callOff(exchange: object | null, name: AskName): string | null {
    for (const [id, ask] of this.#open) {
      if ((ask.owner?.exchange ?? null) !== exchange || !isSame(ask.name, name)) continue;
      this.#end(id, ask);
      ask.reject(new GatewayError('CANCELLED', 'the server cancelled its request'));
      return id;
    }
    return null;
  }

  /** The exchange was answered: asks that were only likely to be its own go on without an exchange. */
  release(exchange: object): void {
    for (const [id, ask] of this.#open) {
      if (ask.owner?.exchange !== exchange || !ask.owner.likely) continue;
      ask.owner = null;
      ask.disarm = this.#armed(id);
    }
  }

  /** Ends all asks of one exchange and returns their ids: its call is over, or its client is gone. */
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
    return Number.isInteger(number) && number > 0 && number <= this.#count;
  }
}

function isSame(one: AskName, other: AskName): boolean {
  return one.id === other.id && (one.server === '' || other.server === '' || one.server === other.server);
}
