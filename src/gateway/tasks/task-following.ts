import type { Principal } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { isTerminal } from '../../model/task-status.ts';
import type { SharedListens } from '../subscriptions/shared-listens.ts';
import { starterOf } from './task-calls.ts';
import { heardTask } from './task-news.ts';
import type { TaskTable } from './task-table.ts';

/** Tasks followed at once; of those beyond, news come with the next poll. */
const MAX_FOLLOWED = 1_000;

/**
 * Receives the status of stateless servers' tasks for sessions that get `notifications/tasks/status`, through the shared listen
 * stream, until the task has ended or is not kept any more.
 */
export class TaskFollowing {
  readonly #sharedListens: SharedListens;
  readonly #clock: Clock;
  readonly #table: TaskTable;
  /** By the task's key, what ends it. */
  readonly #followed = new Map<string, () => void>();

  constructor(deps: { readonly sharedListens: SharedListens; readonly clock: Clock; readonly table: TaskTable }) {
    this.#sharedListens = deps.sharedListens;
    this.#clock = deps.clock;
    this.#table = deps.table;
  }

  follow(record: TaskRecord, principal: Principal): void {
    const wanted = record.era === 'stateless' && record.sessionId !== null && !isTerminal(record.status);
    if (!wanted || this.#followed.has(record.key) || this.#followed.size >= MAX_FOLLOWED) return;
    let leave: (() => void) | null = null;
    let over = false;
    const stop = () => {
      over = true;
      leave?.();
    };
    const disarm = this.#clock.after(Math.max(0, record.expiresAt - this.#clock.wall()), () => this.end(record));
    this.#followed.set(record.key, () => {
      disarm();
      stop();
    });
    leave = this.#sharedListens.join(record.server, {
      client: starterOf(record, principal),
      wanted: { uris: new Set(), taskIds: new Set([record.taskId]) },
      settled: ({ taskIds }) => {
        // A server that will not tell of the task is not listened to, and not asked again: the entry stays.
        if (!taskIds.has(record.taskId)) stop();
      },
      received: (message) => this.#heard(record, message.method === 'notifications/tasks' ? heardTask(message) : null),
    });
    // It may have been over before there was anything to leave.
    if (over) leave();
  }

  end({ key }: Pick<TaskRecord, 'key'>): void {
    const stop = this.#followed.get(key);
    this.#followed.delete(key);
    stop?.();
  }

  close(): void {
    for (const key of [...this.#followed.keys()]) this.end({ key });
  }

  #heard(record: TaskRecord, heard: ReturnType<typeof heardTask>): void {
    const now = this.#table.get(record.key);
    if (heard !== null && now !== null) this.#table.update(now, heard.news);
  }
}
