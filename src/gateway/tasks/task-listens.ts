import { GatewayError } from '../../model/gateway-error.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { notification } from '../../protocol/compose.ts';
import type { Listen } from '../subscriptions/listen.ts';
import type { ResultStreams } from './result-streams.ts';
import { awaitsStream, statelessView } from './task-answers.ts';
import type { TaskNames } from './task-names.ts';
import type { TaskTable } from './task-table.ts';

/** Which tasks of a listen the gateway reports, and which their servers report. */
export interface ListenedTasks {
  /** By the client's names. */
  readonly here: readonly string[];
  /** By server, the server's own id to the client's name. */
  readonly there: ReadonlyMap<string, ReadonlyMap<string, string>>;
}

/**
 * `taskIds` of a stateless client's listen. News of stateless servers' tasks come on the server's own stream; those of
 * stateful servers' tasks are made from what is heard of them here.
 */
export class TaskListens {
  readonly #table: TaskTable;
  readonly #names: TaskNames;
  readonly #streams: ResultStreams;

  constructor(deps: { readonly table: TaskTable; readonly names: TaskNames; readonly streams: ResultStreams }) {
    this.#table = deps.table;
    this.#names = deps.names;
    this.#streams = deps.streams;
  }

  /** What is not the caller's is not listened to. */
  open(listen: Listen, taskIds: readonly string[]): ListenedTasks {
    const here: string[] = [];
    const there = new Map<string, Map<string, string>>();
    for (const taskId of taskIds) {
      const record = this.#names.find(taskId, listen.client, listen.endpoint);
      if (record === null || record instanceof GatewayError) continue;
      if (record.era === 'stateless') {
        const ids = there.get(record.server) ?? new Map<string, string>();
        there.set(record.server, ids.set(record.taskId, taskId));
      } else {
        here.push(taskId);
        listen.onEnd(this.#table.watch(record.key, (now) => void this.#tell(listen, now, taskId)));
      }
    }
    return { here, there };
  }

  /** The ids that may be asked for at a server that the listen is passed on to as it is. */
  allowed(listen: Listen, taskIds: readonly string[]): readonly string[] {
    return taskIds.filter(
      (taskId) => !(this.#names.find(taskId, listen.client, listen.endpoint) instanceof GatewayError),
    );
  }

  async #tell(listen: Listen, heard: TaskRecord, taskId: string): Promise<void> {
    let record = heard;
    if (awaitsStream(record) && record.era === 'stateful')
      record = await this.#streams.heard(record, listen.client.principal);
    const questions = this.#streams.of(record)?.questions ?? null;
    listen.send(notification('notifications/tasks', statelessView(record, taskId, questions, ''), 'stateless'));
  }
}
