import type { Principal } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { isTerminal } from '../../model/task-status.ts';
import type { TaskParts } from './task-creation.ts';
import { parseTaskReport } from './task-views.ts';

/** The tasks of all callers, for the operator. */
export class TaskOversight {
  readonly #parts: Pick<TaskParts, 'table' | 'calls' | 'streams'>;

  constructor(parts: Pick<TaskParts, 'table' | 'calls' | 'streams'>) {
    this.#parts = parts;
  }

  all(): readonly TaskRecord[] {
    return [...this.#parts.table.all()];
  }

  /** Deletes the tasks of a removed caller: another one may get its name. */
  forget(principal: string): void {
    const { table, streams } = this.#parts;
    for (const record of [...table.of(principal)]) {
      streams.close(record, 'the caller was removed');
      table.delete(record);
    }
  }

  get(key: string): TaskRecord | null {
    return this.#parts.table.get(key);
  }

  /**
   * Cancels a task at its server, over the connection of `owner`, its caller. Resolves with the task as it is then. Rejects
   * with GatewayError if it has ended or its server refuses.
   */
  async cancel(record: TaskRecord, owner: Principal): Promise<TaskRecord> {
    const { table, calls, streams } = this.#parts;
    if (isTerminal(record.status)) {
      throw new GatewayError('INVALID_PARAMS', `the task has ended: it is ${record.status.replace('_', ' ')}`);
    }
    const outcome = await calls.own(record, owner, 'tasks/cancel');
    if (outcome.kind === 'failure') throw outcome.error;
    const { message } = outcome;
    if (message.kind === 'error') {
      throw new GatewayError('UPSTREAM_PROTOCOL', `${record.server} does not cancel it: ${message.body.toString()}`);
    }
    // A stateless server only acknowledges.
    const now = table.update(record, parseTaskReport(message)?.update ?? { status: 'cancelled' });
    streams.close(record, 'the operator cancelled the task');
    return now;
  }
}
