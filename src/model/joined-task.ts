import type { TaskRecord } from './ports.ts';
import { isTerminal } from './task-status.ts';

/** The new record with the final parts of the known one: end, answer, lost session. Returns `said` if nothing changes. */
export function joinedTask(said: TaskRecord, known: TaskRecord): TaskRecord {
  const ended = isTerminal(known.status) && !isTerminal(said.status);
  // An error may concern the query for the task and not the task itself.
  const answered =
    known.answer !== null && (said.answer === null || (said.answer.kind === 'error' && known.answer.kind === 'result'));
  const left = known.sessionId === null && said.sessionId !== null;
  if (!ended && !answered && !left) return said;
  const { status, description } = ended ? known : said;
  return {
    ...said,
    status,
    description,
    sessionId: left ? null : said.sessionId,
    answer: answered ? known.answer : said.answer,
  };
}
