import { IntegerMap } from '../../model/integer-map.ts';
import type { CallEndpoint, CallTable } from './call-endpoint.ts';
import type { CallTransport, TickInfo } from './call-transport.ts';
import { type CallId, FRAME, type Framed, keyOf, readAck, readData } from './frames.ts';

/** The open calls of one direction. */
export abstract class Calls<Call extends CallEndpoint> implements CallTable {
  readonly transport: CallTransport;
  protected readonly open = new IntegerMap<Call>();
  /** Calls that `tick` visits before the next beat; a beat visits all calls. */
  #scheduled: CallEndpoint[] = [];

  constructor(transport: CallTransport) {
    this.transport = transport;
  }

  get size(): number {
    return this.open.size;
  }

  take(id: CallId, from: string, frame: Framed): void {
    const call = this.open.get(keyOf(id));
    const kind = frame.bytes[frame.from]!;
    if (call === undefined) this.unknown(id, from, kind);
    else if (call.peer !== from) return;
    else if (kind === FRAME.data) {
      const data = readData(frame);
      if (data !== null) call.data(data);
    } else if (kind === FRAME.ack) {
      const ack = readAck(frame);
      if (ack !== null) call.ack(ack);
    } else call.controlFrame(kind, frame);
  }

  resync(): void {
    for (const call of this.open.values()) call.resync();
  }

  wake(call: CallEndpoint, at: number): void {
    this.transport.wakeAt(at);
    if (call.isScheduled || at >= this.transport.nextBeat) return;
    call.isScheduled = true;
    this.#scheduled.push(call);
  }

  /** Returns the time at which it must be called again. */
  tick(info: TickInfo): number {
    const calls = info.beat ? this.open.values() : this.#scheduled;
    this.#scheduled = [];
    let next = Number.POSITIVE_INFINITY;
    for (const call of calls) {
      call.isScheduled = false;
      const at = call.tick(info);
      if (at < this.transport.nextBeat && !call.isScheduled) {
        call.isScheduled = true;
        this.#scheduled.push(call);
      }
      next = Math.min(next, at);
    }
    return this.open.size === 0 ? next : Math.min(next, this.transport.nextBeat);
  }

  ended(call: CallId): void {
    this.open.delete(keyOf(call));
  }

  /** Handles a frame of a call that is not open. */
  protected abstract unknown(id: CallId, from: string, kind: number): void;
}
