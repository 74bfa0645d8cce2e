import { Counts } from './counts.ts';
import { isTerminal, type TaskStatus } from './task-status.ts';

/** Tasks of a lone node; a cluster has so many for each node, and a node has so many of other nodes at hand. */
export const MAX_TASKS = 10_000;
/** Bytes of kept answers for each of them: 64 MiB in all. */
export const BYTES_PER_TASK = (64 * 1024 * 1024) / MAX_TASKS;

interface SizedTask {
  readonly principal: string;
  readonly status: TaskStatus;
  readonly description: Buffer;
  readonly answer: { readonly body: Buffer } | null;
}

/** How many tasks there are, how many of them have not ended, and the bytes of their answers, by principal. */
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
