import { pause, withTimeout } from '../model/clock.ts';
import type { FirstNodeDeps } from './at-first-node.ts';
import { packFrame, unpackFrame } from './frames/frame.ts';
import type { SharedTable } from './shared-table.ts';

const NAME = 'trunkline.heard.sessions';
const MOST_MS = 1_000;
const LOOK_MS = 5;

interface ReplicationBarrierDeps extends Pick<FirstNodeDeps, 'bus' | 'clock' | 'nodes'> {
  readonly table: SharedTable;
}

/** The written record. A node of an earlier version ignores `key` and waits until its watch has reached `revision`. */
interface WrittenRecord {
  readonly key?: string;
  readonly revision: number;
}

/**
 * Waits until all nodes have read a session's record. Watches deliver it with a short delay, and a client's next request must not
 * reach another node before it.
 */
export class ReplicationBarrier {
  readonly #deps: ReplicationBarrierDeps;
  readonly #serving: { close(): void };

  constructor(deps: ReplicationBarrierDeps) {
    this.#deps = deps;
    const { bus, table } = deps;
    this.#serving = bus.serve(NAME, async (serving) => {
      const { key } = unpackFrame<WrittenRecord>(serving.payload).header;
      if (key !== undefined) await table.read(key);
      serving.answer(packFrame({}));
    });
  }

  /** Resolves after at most a second. Never rejects. */
  async put(key: string): Promise<void> {
    const { bus, clock, table, nodes } = this.#deps;
    const end = clock.now() + MOST_MS;
    while (table.waiting(key) !== undefined) {
      if (clock.now() >= end) return;
      await pause(clock, LOOK_MS);
    }
    const late = (): null => null;
    const revision = await withTimeout(clock, end - clock.now(), table.read(key).catch(late), late);
    if (revision === null) return;
    const frame = packFrame({ key, revision } satisfies WrittenRecord);
    const deadlineMs = end - clock.now();
    const calls = Array.from(nodes.others(), ({ peer: to }) => bus.call(NAME, frame, { to, deadlineMs }).outcome);
    await Promise.all(calls);
  }

  close(): void {
    this.#serving.close();
  }
}
