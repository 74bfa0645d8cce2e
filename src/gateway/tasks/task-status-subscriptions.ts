import type { Principal } from '../../model/client-profile.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { isTerminal } from '../../model/task-status.ts';
import { taskOf } from '../subscriptions/listen-filter.ts';
import type { SharedListens, Subscriber } from '../subscriptions/shared-listens.ts';
import { starterOf } from './task-calls.ts';
import type { TaskTable } from './task-table.ts';
import { parseTaskReport } from './task-views.ts';

/** Tasks followed at once; others are updated by the next poll. */
const MAX_FOLLOWED = 1_000;

/**
 * Receives the status of stateless servers' tasks for sessions that get `notifications/tasks/status`, through the shared listen
 * stream, until the task has ended or is deleted.
 */
export class TaskStatusSubscriptions {
  readonly #sharedListens: SharedListens;
  readonly #table: TaskTable;
  /** By the task's key. */
  readonly #followed = new Map<string, Subscriber>();

  constructor(sharedListens: SharedListens, table: TaskTable) {
    this.#sharedListens = sharedListens;
    this.#table = table;
  }

  follow(record: TaskRecord, principal: Principal): void {
    const { key, server, taskId } = record;
    const wanted = record.era === 'stateless' && record.sessionId !== null && !isTerminal(record.status);
    if (!wanted || this.#followed.has(key) || this.#followed.size >= MAX_FOLLOWED) return;
    const subscriber: Subscriber = {
      client: starterOf(record, principal),
      wanted: new Set([taskOf(taskId)]),
      settled: (honoured) => {
        // A server that does not report the task is not asked again: the entry stays.
        if (honoured.size === 0) this.#sharedListens.leave(subscriber);
      },
      received: (message) => {
        const report = message.method === 'notifications/tasks' ? parseTaskReport(message) : null;
        const now = this.#table.get(key);
        if (report !== null && now !== null) this.#table.update(now, report.update);
      },
    };
    this.#followed.set(key, subscriber);
    this.#sharedListens.join(server, subscriber);
  }

  end({ key }: Pick<TaskRecord, 'key'>): void {
    const subscriber = this.#followed.get(key);
    this.#followed.delete(key);
    if (subscriber !== undefined) this.#sharedListens.leave(subscriber);
  }

  /** Its server would start a process for a session that has ended. */
  sessionEnded(sessionId: string): void {
    for (const [key, { client }] of [...this.#followed]) if (client.sessionId === sessionId) this.end({ key });
  }

  close(): void {
    for (const key of [...this.#followed.keys()]) this.end({ key });
  }
}
