import type { TaskRecord } from './ports.ts';
import { isTerminal } from './task-status.ts';

/** The new record with the final parts of the known one: end, answer, lost session. Returns `incoming` if nothing changes. */
export function mergedTask(incoming: TaskRecord, known: TaskRecord): TaskRecord {
  const ended = isTerminal(known.status) && !isTerminal(incoming.status);
  // An error may concern the query for the task and not the task itself.
  const answered =
    known.answer !== null &&
    (incoming.answer === null || (incoming.answer.kind === 'error' && known.answer.kind === 'result'));
  const left = known.sessionId === null && incoming.sessionId !== null;
  if (!ended && !answered && !left) return incoming;
  const { status, description } = ended ? known : incoming;
  return {
    ...incoming,
    status,
    description,
    sessionId: left ? null : incoming.sessionId,
    answer: answered ? known.answer : incoming.answer,
  };
}
