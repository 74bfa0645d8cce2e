import type { Clock } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import type { Connection } from '../connection/connection.ts';

/** F12: a server is listed again at most once a second, whatever it announces. */
const REFRESH_EVERY_MS = 1_000;
/** Changes come in groups (tools, prompts and resources of one event); they are waited for so long. */
const GROUPING_MS = 20;

/**
 * Gathers the `list_changed` notifications of one server. At most once a second it hands on, per connection, one
 * notification of each kind.
 */
export class ChangeGatherer {
  readonly #clock: Clock;
  readonly #act: (connection: Connection, messages: readonly Message[]) => void;
  readonly #noted = new Map<Connection, Map<string, Message>>();
  #last = Number.NEGATIVE_INFINITY;
  #disarm: (() => void) | null = null;
  #handedOn = Promise.withResolvers<void>();

  constructor(clock: Clock, act: (connection: Connection, messages: readonly Message[]) => void) {
    this.#clock = clock;
    this.#act = act;
  }

  note(connection: Connection, message: Message): void {
    let messages = this.#noted.get(connection);
    if (messages === undefined) this.#noted.set(connection, (messages = new Map()));
    messages.set(message.method, message);
    if (this.#disarm !== null) return;
    const delayMs = Math.max(GROUPING_MS, this.#last + REFRESH_EVERY_MS - this.#clock.now());
    this.#disarm = this.#clock.after(delayMs, () => this.#flush());
  }

  /** Resolves when the changes of this connection are handed on; null where there are none. Any stateless one tells of all. */
  due(connection: Connection): Promise<void> | null {
    const noted = this.#noted.has(connection) || (connection.era === 'stateless' && this.#noted.size > 0);
    return noted ? this.#handedOn.promise : null;
  }

  close(): void {
    this.#disarm?.();
    this.#disarm = null;
    this.#noted.clear();
    this.#handedOn.resolve();
  }

  #flush(): void {
    this.#disarm = null;
    this.#last = this.#clock.now();
    const noted = [...this.#noted];
    this.#noted.clear();
    for (const [connection, messages] of noted) this.#act(connection, [...messages.values()]);
    this.#handedOn.resolve();
    this.#handedOn = Promise.withResolvers<void>();
  }
}
