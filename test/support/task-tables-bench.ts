import type { Bus } from '../../src/bus/bus.ts';
import { MemoryHub } from '../../src/bus/memory/memory-wire.ts';
import type { SharedState } from '../../src/bus/shared-state.ts';
import { SharedTaskRecords } from '../../src/cluster/sessions/shared-task-records.ts';
import { Sealer } from '../../src/gateway/sealer.ts';
import { type TaskEvents, TaskTable } from '../../src/gateway/tasks/task-table.ts';
import type { TaskRecords } from '../../src/model/ports.ts';
import { systemRandom } from '../../src/model/random.ts';
import type { Sealing } from '../../src/model/sealing.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { memoryBus } from './cluster-bench.ts';
import type { FakeClock } from './fake-clock.ts';
import { NO_RECORDS } from './gateway-bench.ts';
import { UNHEARD } from './new-task.ts';

interface Node {
  readonly state: SharedState;
  readonly own?: TaskRecords;
  readonly sealing?: Sealing;
  readonly events?: TaskEvents;
  readonly maxTasks?: number;
}

/** The tables of tasks of nodes that share their records. */
export class TaskTablesBench {
  readonly #clock: FakeClock;
  readonly #hub = new MemoryHub();
  readonly #records = new Map<Bus, SharedTaskRecords>();
  readonly #tables = new Map<Bus, TaskTable>();
  /** Tables of nodes that other nodes do not see. */
  readonly unseen = new Set<TaskTable>();

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  node({ own = NO_RECORDS, sealing = new Sealer(Buffer.alloc(32, 7)), events = UNHEARD, ...node }: Node): TaskTable {
    const clock = this.#clock;
    const bus = memoryBus(this.#hub, clock);
    const isSeen = (other: Bus) => other !== bus && !this.unseen.has(this.#tables.get(other)!);
    const nodes = { others: () => [...this.#tables.keys()].filter(isSeen) };
    const records = new SharedTaskRecords({ ...node, bus, nodes, clock, logger: Logger.silent(), sealing, own });
    const table = new TaskTable({ clock, random: systemRandom, records, events });
    this.#records.set(bus, records);
    this.#tables.set(bus, table);
    return table;
  }

  async dispose(): Promise<void> {
    for (const records of this.#records.values()) await records.close();
    for (const bus of this.#records.keys()) await bus.close();
  }
}
