import type { Clock } from '../../model/clock.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Message } from '../../model/message.ts';
import { isTerminal } from '../../model/task-status.ts';
import { bodyField, bodyString, errorCode } from '../../protocol/body.ts';
import { readTask, type TaskState } from '../../protocol/tasks/task-state.ts';

/** Tasks of one connection that are known to run; beyond them the oldest is forgotten. */
const MAX_TASKS = 256;
/** A task whose end nobody hears of counts as running for as long as its server keeps it, and no longer than this. */
const LONGEST_MS = 24 * 60 * 60_000;

/**
 * The tasks that were begun over one connection and are not known to have ended. A process has them in its memory: while
 * one runs the connection is in use, though nothing is in flight between two questions after it.
 */
export class RunningTasks {
  readonly #clock: Clock;
  /** Task to the monotonic time from which it does not count any more. */
  readonly #until = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get any(): boolean {
    const now = this.#clock.now();
    for (const [taskId, until] of this.#until) {
      if (until > now) return true;
      this.#until.delete(taskId);
    }
    return false;
  }

  /** The answer to a call that may begin a task. */
  begun(answer: Message): void {
    const task = taskIn(answer);
    if (task === null || isTerminal(task.status)) return;
    this.#until.set(task.taskId, this.#clock.now() + Math.min(task.ttlMs ?? LONGEST_MS, LONGEST_MS));
    if (this.#until.size > MAX_TASKS) this.#until.delete(this.#until.keys().next().value!);
  }

  /** The answer to a request about a task: it may be that it has ended, or is not known any more. */
  answered(method: string, request: Message, answer: Message): void {
    const ended =
      method === 'tasks/result' || (answer.kind === 'error' && errorCode(answer) === CATALOGUE.INVALID_PARAMS.rpc);
    if (ended) this.#until.delete(bodyString(request, 'taskId') ?? '');
    else this.told(answer);
  }

  /** How a task stands, asked or not. */
  told(message: Message): void {
    const task = taskIn(message);
    if (task !== null && isTerminal(task.status)) this.#until.delete(task.taskId);
  }
}

/** 2025-11-25 puts a task that was begun into `task`; otherwise, and in 2026-07-28, the body is the task. */
function taskIn(message: Message): TaskState | null {
  const { bytes, bodyStart, bodyEnd } = message;
  if (bodyStart < 0) return null;
  return readTask(bytes, bodyField(message, 'task') ?? { start: bodyStart, end: bodyEnd });
}
