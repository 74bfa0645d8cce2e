import { ByNumber } from '../../model/by-number.ts';
import type { CallEnd, CallKeeper } from './call-end.ts';
import type { CallTransport, Look } from './call-transport.ts';
import { type CallId, FRAME, type Framed, keyOf, readAck, readData } from './frames.ts';

/** The open calls of one direction. */
export abstract class Calls<Call extends CallEnd> implements CallKeeper {
  readonly transport: CallTransport;
  protected readonly open = new ByNumber<Call>();
  /** Calls that `tick` visits before the next beat; a beat visits all calls. */
  #soon: CallEnd[] = [];

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
    } else call.told(kind, frame);
  }

  resync(): void {
    for (const call of this.open.values()) call.resync();
  }

  wake(call: CallEnd, at: number): void {
    this.transport.wakeAt(at);
    if (call.soon || at >= this.transport.nextBeat) return;
    call.soon = true;
    this.#soon.push(call);
  }

  /** Returns the time at which it must be called again. */
  tick(look: Look): number {
    const calls = look.beat ? this.open.values() : this.#soon;
    this.#soon = [];
    let next = Number.POSITIVE_INFINITY;
    for (const call of calls) {
      call.soon = false;
      const at = call.tick(look);
      if (at < this.transport.nextBeat && !call.soon) {
        call.soon = true;
        this.#soon.push(call);
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
