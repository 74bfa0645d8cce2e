import { createHash } from 'node:crypto';
import type { TaskRecord } from './ports.ts';
import type { Random } from './random.ts';

/** By what a server's task is known: the server, and the server's own id. */
export type TaskRoute = Pick<TaskRecord, 'server' | 'taskId'>;

/** Keys of tasks begin with it, so that they are found by the route; `.` follows. */
export function keyPrefix({ server, taskId }: TaskRoute): string {
  return createHash('sha256').update(`${server}\0${taskId}`).digest('hex').slice(0, 16);
}

/** Another each time: two processes of one server may give out one id. */
export function newTaskKey(route: TaskRoute, random: Random): string {
  return `${keyPrefix(route)}.${random.hex(8)}`;
}
