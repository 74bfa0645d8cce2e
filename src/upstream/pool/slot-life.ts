import { GatewayError } from '../../model/gateway-error.ts';
import type { Attempt } from '../connection/attempt.ts';
import type { Connection } from '../connection/connection.ts';
import { closedError } from '../connection/failures.ts';
import type { Wanted } from '../connection/session-key.ts';
import type { StartQueue } from '../supervision/start-queue.ts';
import type { CloseReason } from '../transport/transport.ts';
import { ProcessRoom, type ProcessRoomDeps, type Yielding } from './process-quota.ts';
import type { Slot } from './slot.ts';

interface SlotLifeDeps extends ProcessRoomDeps {
  /** Opens and negotiates a connection. Rejects with GatewayError, nothing left behind. */
  readonly connect: (want: Wanted, attempt: Attempt) => Promise<Connection>;
  /** Where processes wait for a place to start in; null for what is none. */
  readonly starts: StartQueue | null;
  /** Whose processes these are. */
  readonly pool: Yielding;
  /** Whether there is room for another one, made if need be. */
  readonly makeRoom: () => boolean;
  /** Whether the slot still has its place. */
  readonly wanted: (slot: Slot) => boolean;
  readonly opened: (slot: Slot, connection: Connection) => void;
}

/**
 * How the slots of one pool get their connections and lose them: each is opened once for all who wait, counted from
 * before its process is started until nothing is left of it, and ended when it is no longer wanted.
 */
export class SlotLife {
  readonly room: ProcessRoom;
  readonly #deps: SlotLifeDeps;
  readonly #opening = new Set<Slot>();
  /** Given up, and not yet gone. */
  readonly #closing = new Set<Connection>();

  constructor(deps: SlotLifeDeps) {
    this.#deps = deps;
    this.room = new ProcessRoom(deps);
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
    const { server, connect, wanted, opened, starts } = this.#deps;
    const { room } = this;
    await this.#takePlace(slot);
    let connection: Connection;
    try {
      if (starts === null) slot.attempt.begin();
      else await starts.take(slot.attempt);
      connection = await connect(slot, slot.attempt);
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
    if (!wanted(slot)) {
      slot.attempt.undoBy((how) => void connection.close(how));
      await this.close(connection, slot.attempt.how);
      throw this.#unwanted();
    }
    slot.connection = connection;
    opened(slot, connection);
    return connection;
  }

  /** Rejects with GatewayError: there is none, and for a call that waits there was none for a moment. */
  async #takePlace({ attempt }: Slot): Promise<void> {
    const { quota, makeRoom, pool } = this.#deps;
    const take = (): boolean => {
      if (!makeRoom()) return false;
      this.room.take(pool);
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
    const { server } = this.#deps;
    const text = `the connection to ${server} is no longer wanted`;
    return new GatewayError('CANCELLED', text, { server, outcome: 'NOT_SENT' });
  }
}
