import { GatewayError } from '../../model/gateway-error.ts';
import type { Era } from '../../model/message.ts';
import type { Attempt } from '../connection/attempt.ts';
import type { Connection } from '../connection/connection.ts';
import type { Connector } from '../connection/connector.ts';
import { closedError, EraUnspoken } from '../connection/failures.ts';
import type { WantedConnection } from '../connection/session-key.ts';
import type { SpokenEras } from '../connection/spoken-eras.ts';
import type { ServerContext } from '../server-context.ts';
import type { StartQueue } from '../supervision/start-queue.ts';
import { isAtRest } from '../supervision/state-machine.ts';
import type { Supervisor } from '../supervision/supervisor.ts';
import type { CloseReason } from '../transport/transport.ts';
import { type ProcessQuota, ProcessRoom, type Yielding } from './process-quota.ts';
import type { Slot } from './slot.ts';

/** The pool that the slots are of. */
interface SlotPool extends Yielding {
  /** Whether there is room for another connection, made if need be. */
  makeRoom(): boolean;
  /** Whether the slot still has its place. */
  wants(slot: Slot): boolean;
  opened(slot: Slot, connection: Connection): void;
  takeWarm(want: WantedConnection): Connection | null;
  any(era: Era): Connection | null;
}

/** What opens the connections of one server, and limits their number. */
export interface SlotParts {
  readonly connector: Connector;
  readonly eras: SpokenEras;
  readonly supervisor: Supervisor;
  /** The node's limit of processes; null for servers that are none. */
  readonly quota: ProcessQuota | null;
  /** Where processes wait for a place to start in; null for servers that are none. */
  readonly starts: StartQueue | null;
}

/**
 * How the slots of one pool get their connections and lose them: each is opened once for all who wait, counted from
 * before its process is started until nothing is left of it, and ended when it is no longer wanted.
 */
export class SlotLife {
  readonly room: ProcessRoom;
  readonly #context: ServerContext;
  readonly #pool: SlotPool;
  readonly #by: SlotParts;
  readonly #opening = new Set<Slot>();
  /** Given up, and not yet gone. */
  readonly #closing = new Set<Connection>();

  constructor(context: ServerContext, pool: SlotPool, by: SlotParts) {
    this.#context = context;
    this.#pool = pool;
    this.#by = by;
    this.room = new ProcessRoom(context, by.quota);
  }

  get closing(): Iterable<Connection> {
    return this.#closing;
  }

  /** Rejects with GatewayError. */
  open(slot: Slot): Promise<Connection> {
    this.#opening.add(slot);
    slot.opening = this.#connect(slot).finally(() => {
      this.#opening.delete(slot);
      slot.opening = null;
    });
    return slot.opening;
  }

  /** Also while it is being opened. */
  async end(slot: Slot, how: CloseReason): Promise<void> {
    slot.attempt.cancel(how);
    if (slot.connection !== null) await this.close(slot.connection, how);
    else await slot.opening?.catch(() => {});
  }

  /**
   * What is ending already, or would end as soon as it is open, ends no later than that. `lost`: by session key. Resolves when
   * it has.
   */
  async hurry(lost: (key: string) => boolean, how: CloseReason): Promise<void> {
    const opening = [...this.#opening].filter(({ key }) => lost(key)).map((slot) => this.end(slot, how));
    const closing = [...this.#closing].filter(({ key }) => lost(key)).map((connection) => connection.close(how));
    await Promise.all([...opening, ...closing]);
  }

  async close(connection: Connection, how: CloseReason): Promise<void> {
    this.#closing.add(connection);
    try {
      await connection.close(how);
    } finally {
      this.#closing.delete(connection);
      this.room.gone(connection);
    }
  }

  async #connect(slot: Slot): Promise<Connection> {
    const { starts } = this.#by;
    const { name: server } = this.#context;
    const { room } = this;
    await this.#takePlace(slot);
    let connection: Connection;
    try {
      if (starts === null) slot.attempt.begin();
      else await starts.take(slot.attempt);
      connection = await this.#open(slot, slot.attempt);
    } catch (error) {
      room.failed();
      throw slot.attempt.cancelled ? this.#unwanted() : error;
    } finally {
      slot.attempt.place?.leave();
    }
    room.opened(connection);
    if (!connection.ready) {
      room.gone(connection);
      const { ended, transport } = connection;
      if (ended !== null) throw closedError(server, ended, transport.stderrTail());
      throw new GatewayError('NOT_SENT', `the connection to ${server} ended at once`);
    }
    if (!this.#pool.wants(slot)) {
      slot.attempt.undoBy((how) => void connection.close(how));
      await this.close(connection, slot.attempt.how);
      throw this.#unwanted();
    }
    slot.connection = connection;
    this.#pool.opened(slot, connection);
    return connection;
  }

  async #open(want: WantedConnection, attempt: Attempt): Promise<Connection> {
    const { connector, eras, supervisor } = this.#by;
    const { state } = supervisor;
    // Another attempt must not start a process of a stopped server that nothing would end.
    if (state === 'stopping' || (isAtRest(state) && state !== 'unknown')) {
      const { name: server } = this.#context;
      throw new GatewayError('CANCELLED', `${server} is stopped`, { server, outcome: 'NOT_SENT' });
    }
    try {
      return await connector.connect(this.#context.server, want, attempt, () => this.#pool.takeWarm(want));
    } catch (error) {
      // A live connection proves that the server speaks the era: then this is a failure like any other.
      if (want.era === 'stateful' && eras.newest === 'stateless' && this.#pool.any('stateful') === null) {
        if (error instanceof EraUnspoken) eras.refusedInitialize(error);
        else if (eras.both && !attempt.cancelled) eras.doubt();
      }
      throw error;
    }
  }

  /** Rejects with GatewayError: there is none, and for a call that waits there was none for a moment. */
  async #takePlace({ attempt }: Slot): Promise<void> {
    const { quota } = this.#by;
    const take = (): boolean => {
      if (!this.#pool.makeRoom()) return false;
      this.room.take(this.#pool);
      return true;
    };
    const taken = quota === null ? take() : quota.place(attempt, take);
    // A start that waits for room keeps no other from starting.
    if (typeof taken !== 'boolean') attempt.place?.leave();
    if (await taken) return;
    throw attempt.cancelled ? this.#unwanted() : this.room.refusal();
  }

  /** Our own doing, and no failure of the server's. */
  #unwanted(): GatewayError {
    const { name: server } = this.#context;
    const text = `the connection to ${server} is no longer wanted`;
    return new GatewayError('CANCELLED', text, { server, outcome: 'NOT_SENT' });
  }
}
