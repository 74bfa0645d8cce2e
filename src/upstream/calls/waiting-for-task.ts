import { bodyString } from '../../protocol/body.ts';
import type { Pending } from './pending.ts';

/**
 * The `tasks/result` in flight for this task: what its server says and asks while the task runs belongs there
 * (2025-11-25 utilities/tasks §Input Required Status), whatever else is under way. null for none.
 */
export function waitingForTask(pending: Iterable<Pending>, taskId: string): Pending | null {
  for (const waiting of pending) {
    const { method, request, exchange } = waiting;
    if (method !== 'tasks/result' || request === null || exchange === null) continue;
    if (bodyString(request, 'taskId') === taskId) return waiting;
  }
  return null;
}

/** What is asked on it always names the task, so that it is never taken for another call's. */
export function isAboutTask({ method }: Pending): boolean {
  return method.startsWith('tasks/');
}
