import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { bodyString } from '../../protocol/body.ts';
import { request } from '../../protocol/compose.ts';
import { fieldAt } from '../../protocol/fields.ts';
import { isAsSevere, isLogLevel, type LogLevel } from '../../protocol/meta-keys.ts';
import type { Call } from '../calls/call.ts';
import type { PendingById } from '../calls/pending.ts';

const SET_LEVEL = 'logging/setLevel';
/** How long a call waits for the server to agree to the level it asks for. */
const AGREE_MS = 1_000;

/** The connection whose server gets the level. */
interface LeveledConnection {
  /** Not null: its session is used by all nodes, which may have sent the server another level. */
  readonly joined?: object | null;
  /** Rejects when the request is not answered in time. */
  ask(message: Message, timeoutMs: number): Promise<Message>;
}

/**
 * The log level of the server of one stateful connection: the least severe that a call in flight asks for, sent before the
 * call. It stays when the call is over; the gateway keeps from clients what they did not ask for.
 */
export class LogLevelSync {
  readonly #connection: LeveledConnection;
  readonly #pending: PendingById;
  readonly #ordered: boolean;
  /** The level that was sent last; null for none. */
  sent: LogLevel | null = null;
  #telling: Promise<void> | null = null;

  /** `ordered`: what is sent first arrives first. */
  constructor(connection: LeveledConnection, pending: PendingById, ordered: boolean) {
    this.#connection = connection;
    this.#pending = pending;
    this.#ordered = ordered;
  }

  /** It was sent in another way: on an earlier connection, or by the client itself. */
  was(level: string | null): void {
    if (isLogLevel(level)) this.sent = level;
  }

  /** Whether the call, whose client asks for a level, has to wait for the server to agree; `go` sends it then. */
  holdsBack(call: Call, go: () => void): boolean {
    if (call.method === SET_LEVEL) {
      this.was(bodyString(call.request, 'level'));
      return false;
    }
    const { logLevel, sessionId } = call.exchange.client;
    // A session has one level at all nodes; what shares a connection may want another one with each call, at each of them.
    const agreed = this.before(logLevel, sessionId === null && this.#connection.joined != null);
    if (agreed === null) return false;
    void agreed.then(() => {
      if (!call.done) go();
    });
    return true;
  }

  /** Whether what asks for this level may go at once; else when it may. `again`: sent also where it was sent last. */
  before(level: string | null, again = false): Promise<void> | null {
    if (!isLogLevel(level)) return null;
    if (!again && level === this.sent) return this.#telling;
    const lowest = this.#lowest(level);
    if (!again && lowest === this.sent) return this.#telling;
    this.sent = lowest;
    const agreed = this.#agree(lowest);
    return this.#ordered ? null : (this.#telling = agreed);
  }

  /** Resolves when the server has answered, or had its time to. */
  async #agree(level: LogLevel): Promise<void> {
    const message = request(SET_LEVEL, '0', JSON.stringify({ level }), 'stateful');
    try {
      await this.#connection.ask(message, AGREE_MS);
    } catch (error) {
      // A server that does not answer in time has still got it.
      const silent = error instanceof GatewayError && error.code === 'TIMEOUT';
      if (!silent && this.sent === level) this.sent = null;
    }
    if (this.sent === level || this.sent === null) this.#telling = null;
  }

  /** Of this level and those of the calls in flight. */
  #lowest(level: LogLevel): LogLevel {
    let lowest = level;
    for (const { exchange } of this.#pending.values()) {
      const other = exchange?.client.logLevel ?? null;
      if (isLogLevel(other) && !isAsSevere(other, lowest)) lowest = other;
    }
    return lowest;
  }
}

/** Whether a server with these capabilities takes a level. */
export function takesLevel(capabilities: string): boolean {
  const bytes = Buffer.from(capabilities);
  return fieldAt(bytes, 0, bytes.length, ['logging']) !== null;
}
