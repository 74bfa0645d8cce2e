import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { bodyString } from '../../protocol/body.ts';
import { request } from '../../protocol/compose.ts';
import { fieldAt } from '../../protocol/fields.ts';
import { isAsSevere, isLogLevel, type LogLevel } from '../../protocol/meta-keys.ts';
import { SET_LEVEL } from '../../protocol/methods.ts';
import type { Call } from '../calls/call.ts';
import type { PendingById } from '../calls/pending.ts';

/** How long a call waits for the server to confirm the level that it requests. */
const AGREE_MS = 1_000;

/** The connection whose server receives the level. */
interface LeveledConnection {
  /** Not null: all nodes share the session, and another node may have sent the server another level. */
  readonly joined?: object | null;
  /** Rejects if the request is not answered in time. */
  ask(message: Message, timeoutMs: number): Promise<Message>;
}

/**
 * The log level of one stateful connection's server: the least severe level that an in-flight call requests, sent before the
 * call. It stays after the call; the gateway withholds messages that a client did not request.
 */
export class LogLevelSync {
  readonly #connection: LeveledConnection;
  readonly #pending: PendingById;
  readonly #ordered: boolean;
  /** The level that was last sent; null for none. */
  sent: LogLevel | null = null;
  #sending: Promise<void> | null = null;

  /** `ordered`: messages arrive in the order in which they were sent. */
  constructor(connection: LeveledConnection, pending: PendingById, ordered: boolean) {
    this.#connection = connection;
    this.#pending = pending;
    this.#ordered = ordered;
  }

  /** The level was sent by other means: on an earlier connection, or by the client itself. */
  recordLevel(level: string | null): void {
    if (isLogLevel(level)) this.sent = level;
  }

  /** Whether the call, whose client requests a level, waits for the server's confirmation; `go` then sends it. */
  deferCall(call: Call, go: () => void): boolean {
    if (call.method === SET_LEVEL) {
      this.recordLevel(bodyString(call.request, 'level'));
      return false;
    }
    const { logLevel, sessionId } = call.exchange.client;
    // A session has one level on all nodes; clients that share a connection may request another level with each call.
    const agreed = this.requestLevel(logLevel, sessionId === null && this.#connection.joined != null);
    if (agreed === null) return false;
    void agreed.then(() => {
      if (!call.done) go();
    });
    return true;
  }

  /** Returns null if a call of this level may be sent now, else what it waits for. `repeat`: sends an unchanged level too. */
  requestLevel(level: string | null, repeat = false): Promise<void> | null {
    if (!isLogLevel(level)) return null;
    if (!repeat && level === this.sent) return this.#sending;
    const lowest = this.#lowest(level);
    if (!repeat && lowest === this.sent) return this.#sending;
    this.sent = lowest;
    const agreed = this.#agree(lowest);
    return this.#ordered ? null : (this.#sending = agreed);
  }

  /** Resolves when the server has answered or the time is over. */
  async #agree(level: LogLevel): Promise<void> {
    const message = request(SET_LEVEL, '0', JSON.stringify({ level }), 'stateful');
    try {
      await this.#connection.ask(message, AGREE_MS);
    } catch (error) {
      // A server that does not answer in time has still received the level.
      const silent = error instanceof GatewayError && error.code === 'TIMEOUT';
      if (!silent && this.sent === level) this.sent = null;
    }
    if (this.sent === level || this.sent === null) this.#sending = null;
  }

  /** The least severe of this level and those of the in-flight calls. */
  #lowest(level: LogLevel): LogLevel {
    let lowest = level;
    for (const { exchange } of this.#pending.values()) {
      const other = exchange?.client.logLevel ?? null;
      if (isLogLevel(other) && !isAsSevere(other, lowest)) lowest = other;
    }
    return lowest;
  }
}

/** Whether a server with these capabilities supports log levels. */
export function takesLevel(capabilities: string): boolean {
  const bytes = Buffer.from(capabilities);
  return fieldAt(bytes, 0, bytes.length, ['logging']) !== null;
}
