import type { Clock } from '../../model/clock.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Message } from '../../model/message.ts';
import { MAX_TASK_ID_BYTES } from '../../model/task-sizes.ts';
import { isTerminal } from '../../model/task-status.ts';
import { bodyField, bodyString, errorCode } from '../../protocol/body.ts';
import { readTask, type TaskState } from '../../protocol/tasks.ts';
import type { PendingRequest } from '../calls/pending.ts';

/** Maximum of running tasks that are tracked per connection; above it the oldest is dropped. */
const MAX_TASKS = 256;
/** A task whose end is not reported counts as running for its time to live, at most this long. */
const LONGEST_MS = 24 * 60 * 60_000;

/** Maximum of watched resources that are tracked per connection; after more it counts as watching until it ends. */
const MAX_WATCHED = 4_096;

/** Usage and error counters of one connection. The gateway's own requests do not count. */
export class ConnectionUse {
  readonly #clock: Clock;
  requests = 0;
  /** All failed requests. An error answer or a failing tool is an answer, and a cancellation is not a failure. */
  errors = 0;
  /** Failed requests since the last answered one (S1.11). */
  consecutiveErrors = 0;
  lastError: string | null = null;
  /** Timed-out requests since the last answer, including answers to the gateway's own requests. */
  timeouts = 0;
  /** Monotonic time of the last request, or of its end. */
  lastUsedAt: number;
  #watched: Set<string> | null = null;
  #watchesMore = false;
  /** Tasks started over the connection and not known to have ended, with the monotonic time until which each counts. */
  #tasks: Map<string, number> | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.lastUsedAt = clock.now();
  }

  /** Whether a request was answered, or is in flight. */
  get served(): boolean {
    return this.requests > this.errors;
  }

  /** Whether a resource is subscribed to: a client that waits for updates makes no calls. */
  get watching(): boolean {
    return this.#watchesMore || (this.#watched !== null && this.#watched.size > 0);
  }

  /** Whether a task runs: a client that polls at intervals, or waits for a notification, has no request in flight. */
  get working(): boolean {
    if (this.#tasks === null) return false;
    const now = this.#clock.now();
    for (const [taskId, until] of this.#tasks) {
      if (until > now) return true;
      this.#tasks.delete(taskId);
    }
    return false;
  }

  sent(): void {
    this.requests++;
    this.lastUsedAt = this.#clock.turnNow();
  }

  answered({ exchange, method, request }: PendingRequest, answer: Message): void {
    this.timeouts = 0;
    if (exchange === null) return;
    const ok = answer.kind === 'result';
    this.consecutiveErrors = 0;
    this.lastUsedAt = this.#clock.turnNow();
    if (ok && exchange.beginsTask === true) this.#onTaskStarted(answer);
    if (request === null) return;
    if (this.#tasks !== null && method.startsWith('tasks/')) {
      // The task has ended, the server no longer knows it, or the answer is its status.
      const over = method === 'tasks/result' || (!ok && errorCode(answer) === CATALOGUE.INVALID_PARAMS.rpc);
      if (over) this.#tasks.delete(bodyString(request, 'taskId') ?? '');
      else this.#taskStatus(answer);
    }
    if (!ok || !method.startsWith('resources/')) return;
    const uri = bodyString(request, 'uri') ?? '';
    if (method === 'resources/unsubscribe') this.#watched?.delete(uri);
    else if (method === 'resources/subscribe') {
      this.#watched ??= new Set();
      if (this.#watched.size < MAX_WATCHED) this.#watched.add(uri);
      else if (!this.#watched.has(uri)) this.#watchesMore = true;
    }
  }

  /** The server sent a notification. */
  notified(notification: Message): void {
    if (this.#tasks === null || !notification.method.startsWith('notifications/tasks')) return;
    this.#taskStatus(notification);
    this.lastUsedAt = this.#clock.turnNow();
  }

  failed({ exchange }: PendingRequest, message: string): void {
    if (exchange === null) return;
    this.errors++;
    this.consecutiveErrors++;
    this.lastError = message;
    this.lastUsedAt = this.#clock.turnNow();
  }

  timedOut(pending: PendingRequest): void {
    this.timeouts++;
    this.failed(pending, `${pending.method} was not answered in time`);
  }

  #onTaskStarted(answer: Message): void {
    const task = taskIn(answer);
    if (task === null || isTerminal(task.status) || task.taskId.length > MAX_TASK_ID_BYTES) return;
    this.#tasks ??= new Map();
    this.#tasks.set(task.taskId, this.#clock.now() + Math.min(task.ttlMs ?? LONGEST_MS, LONGEST_MS));
    if (this.#tasks.size > MAX_TASKS) this.#tasks.delete(this.#tasks.keys().next().value!);
  }

  #taskStatus(message: Message): void {
    const task = taskIn(message);
    if (task !== null && isTerminal(task.status)) this.#tasks?.delete(task.taskId);
  }
}

/** In 2025-11-25 the answer that starts a task has it in `task`; otherwise, and in 2026-07-28, the body is the task. */
function taskIn(message: Message): TaskState | null {
  const { bytes, bodyStart, bodyEnd } = message;
  if (bodyStart < 0) return null;
  return readTask(bytes, bodyField(message, 'task') ?? { start: bodyStart, end: bodyEnd });
}
