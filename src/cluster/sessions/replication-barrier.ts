import type { Bus } from '../../bus/bus.ts';
import { type Clock, within } from '../../model/clock.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import type { FollowedRecords, Wait } from './followed-records.ts';

const MOST_MS = 1_000;

type Keep = (wait: Wait<number>) => Promise<number>;

interface ReplicationBarrierDeps {
  readonly bus: Bus;
  readonly clock: Clock;
  /** Of the bucket, on the wire. */
  readonly name: string;
  readonly records: Pick<FollowedRecords, 'written' | 'heardUpTo'>;
  readonly others: () => readonly string[];
}

/**
 * Waits until all nodes know a record. Nodes follow records within a moment; a client whose next request goes to another node
 * must not arrive before.
 */
export class ReplicationBarrier {
  readonly #deps: ReplicationBarrierDeps;
  readonly #serving: { close(): void };

  constructor(deps: ReplicationBarrierDeps) {
    this.#deps = deps;
    const { bus, name, records } = deps;
    this.#serving = bus.serve(`trunkline.heard.${name}.${bus.peer}`, async (serving) => {
      const { revision } = unpackFrame<{ revision: number }>(serving.payload).header;
      await this.#within((kept) => kept(records.heardUpTo(revision)));
      serving.answer(packFrame({}));
    });
  }

  /** At the latest after a second. Never rejects. */
  async put(key: string): Promise<void> {
    await this.#within((kept) => this.#heard(key, kept));
  }

  close(): void {
    this.#serving.close();
  }

  async #heard(key: string, kept: Keep): Promise<void> {
    const { bus, name, records, others } = this.#deps;
    const revision = await kept(records.written(key));
    const asked = others().map((peer) => {
      const options = { to: peer, deadlineMs: MOST_MS };
      return bus.call(`trunkline.heard.${name}.${peer}`, packFrame({ revision }), options).outcome;
    });
    await Promise.all([kept(records.heardUpTo(revision)), ...asked]);
  }

  /** Leaves nothing behind after the timeout: an outage may be long. */
  async #within(work: (kept: Keep) => Promise<unknown>): Promise<void> {
    const waits: Wait<number>[] = [];
    const kept: Keep = (wait) => {
      waits.push(wait);
      return wait.come;
    };
    try {
      await within(this.#deps.clock, MOST_MS, work(kept), () => {});
    } finally {
      for (const { giveUp } of waits) giveUp();
    }
  }
}
