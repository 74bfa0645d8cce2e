import type { TaskRecord } from './ports.ts';
import { isTerminal } from './task-status.ts';

/**
 * What is said of a task, with what was known of it already and nothing takes the place of: that it has ended, its answer,
 * that its session has left it. `said` itself where that is nothing.
 */
export function joinedTask(said: TaskRecord, known: TaskRecord): TaskRecord {
  const ended = isTerminal(known.status) && !isTerminal(said.status);
  const answered = known.answer !== null && said.answer === null;
  const left = known.sessionId === null && said.sessionId !== null;
  if (!ended && !answered && !left) return said;
  const { status, description } = ended ? known : said;
  return { ...said, status, description, sessionId: left ? null : said.sessionId, answer: said.answer ?? known.answer };
}
