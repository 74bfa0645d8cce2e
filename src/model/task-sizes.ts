import { Counts } from './counts.ts';
import { isTerminal, type TaskStatus } from './task-status.ts';

/** Tasks of a lone gateway; in a cluster, tasks per node, and tasks of other nodes that a node keeps in memory. */
export const MAX_TASKS = 10_000;
/** Bytes of stored answers per task: 64 MiB in all. */
export const BYTES_PER_TASK = (64 * 1024 * 1024) / MAX_TASKS;

/** The limit of a task's id, which is stored, used as a key and sent with every request about the task. */
export const MAX_TASK_ID_BYTES = 1_024;

interface SizedTask {
  readonly principal: string;
  readonly status: TaskStatus;
  readonly description: Buffer;
  readonly answer: { readonly body: Buffer } | null;
}

/** Number of tasks, of unfinished tasks, and bytes of their answers, by principal. */
export class TaskSizes {
  readonly tasks = new Counts();
  readonly unfinished = new Counts();
  readonly bytes = new Counts();

  add(record: SizedTask, by: 1 | -1): void {
    const { principal, status } = record;
    this.tasks.add(principal, by);
    if (!isTerminal(status)) this.unfinished.add(principal, by);
    this.bytes.add(principal, by * bytesOfTask(record));
  }
}

export type TaskMeasure = keyof Omit<TaskSizes, 'add'>;

export function bytesOfTask({ description, answer }: SizedTask): number {
  return description.length + (answer?.body.length ?? 0);
}
