import type { Bus } from '../../bus/bus.ts';
import type { Clock } from '../../model/clock.ts';
import { packFrame, unpackFrame } from '../calls/frame.ts';
import type { FollowedRecords } from './followed-records.ts';

/** Who has not heard of a record by then hears of it later. */
const MOST_MS = 1_000;

export interface KnownEverywhereDeps {
  readonly bus: Bus;
  readonly clock: Clock;
  /** Of the bucket: nodes ask each other about it by this name. */
  readonly name: string;
  readonly records: Pick<FollowedRecords, 'written' | 'heardUpTo'>;
  /** The other nodes. */
  readonly others: () => readonly string[];
}

/**
 * Whether all nodes know of a record what was written last. Nodes follow records, so each knows a moment later; a client whose
 * next request goes to another node must not come before that where it would be served differently.
 */
export class KnownEverywhere {
  readonly #deps: KnownEverywhereDeps;
  readonly #serving: { close(): void };

  constructor(deps: KnownEverywhereDeps) {
    this.#deps = deps;
    const { bus, name, records } = deps;
    this.#serving = bus.serve(`trunkline.heard.${name}.${bus.peer}`, async (serving) => {
      const { revision } = unpackFrame<{ revision: number }>(serving.payload).header;
      await this.#within(records.heardUpTo(revision));
      serving.answer(packFrame({}));
    });
  }

  /** Resolves when all nodes that can be reached know what was put last, at the latest after a second. Never rejects. */
  async put(key: string): Promise<void> {
    await this.#within(this.#heard(key));
  }

  close(): void {
    this.#serving.close();
  }

  async #heard(key: string): Promise<void> {
    const { bus, name, records, others } = this.#deps;
    const revision = await records.written(key);
    const asked = others().map((peer) => {
      const options = { to: peer, deadlineMs: MOST_MS };
      return bus.call(`trunkline.heard.${name}.${peer}`, packFrame({ revision }), options).outcome;
    });
    await Promise.all([records.heardUpTo(revision), ...asked]);
  }

  async #within(work: Promise<unknown>): Promise<void> {
    let disarm = (): void => {};
    const late = new Promise<void>((resolve) => {
      disarm = this.#deps.clock.after(MOST_MS, resolve);
    });
    await Promise.race([work, late]);
    disarm();
  }
}
