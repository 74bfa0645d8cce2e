import { createHash } from 'node:crypto';
import type { TaskRecord } from './ports.ts';
import type { Random } from './random.ts';

/** Identifies a server's task: the server, and the server's own task id. */
export type TaskRoute = Pick<TaskRecord, 'server' | 'taskId'>;

/** Prefix of the keys of a route's tasks, by which they are found; `.` follows. */
export function keyPrefix({ server, taskId }: TaskRoute): string {
  return createHash('sha256').update(`${server}\0${taskId}`).digest('hex').slice(0, 16);
}

/** Different each time: two processes of one server may use the same task id. */
export function newTaskKey(route: TaskRoute, random: Random): string {
  return `${keyPrefix(route)}.${random.hex(8)}`;
}
