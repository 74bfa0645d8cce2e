import { unheardSubjects } from '../subjects.ts';
import type { Wire, WireMessage } from '../wire.ts';
import { callOf } from './call-id.ts';
import type { CallTable } from './call-table.ts';
import type { OutgoingCall } from './outgoing-call.ts';

/**
 * Requests of which it is certain that nobody has heard them. The messaging system says so itself, and signs nothing; it
 * says it where nobody else has to publish, so that it can forbid that to everybody (docs/cluster.md). What looks the same
 * and comes elsewhere is not believed.
 */
export class Unheard {
  readonly #calls: CallTable<OutgoingCall>;
  readonly #subscription: { close(): Promise<void> };

  constructor(wire: Wire, peer: string, calls: CallTable<OutgoingCall>) {
    this.#calls = calls;
    this.#subscription = wire.subscribe(unheardSubjects(peer), (message) => this.#said(message));
  }

  /** The connection is lost; the bundles with these numbers never left. */
  lost(unsent: ReadonlySet<number>): void {
    for (const call of this.#calls.values()) {
      if (unsent.has(call.bundle)) call.notSent('the bus lost its connection before the call was sent');
      else call.disconnected();
    }
  }

  close(): Promise<void> {
    return this.#subscription.close();
  }

  #said({ subject, noResponders }: WireMessage): void {
    if (!noResponders) return;
    const reason = 'no node serves what was called';
    const [, , , what, id] = subject.split('.') as [string, string, string, string, string];
    if (what === 'c') {
      const call = callOf(id);
      if (call !== null) this.#calls.get(call.family, call.number)?.notSent(reason);
    } else for (const call of this.#calls.values()) if (call.bundle === Number(id)) call.notSent(reason);
  }
}
