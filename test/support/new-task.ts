import type { NewTask, TaskEvents } from '../../src/gateway/tasks/task-table.ts';
import { agent, client } from './gateway-bench.ts';

export const ADA = client('stateful', { principal: agent('ada', 's') });
export const ANSWER = {
  kind: 'result',
  era: 'stateful',
  body: Buffer.from('{"content":[],"secret":"s3cr3t"}'),
} as const;

/** For a table whose tasks no other part of the gateway follows. */
export const UNHEARD: TaskEvents = { started: () => {}, changed: () => {}, ended: () => {} };

/** A running task of Ada. */
export function newTask(taskId: string, more: Partial<NewTask> = {}): NewTask {
  const { revision, capabilities, fingerprint, info, handle } = ADA;
  return {
    server: 's',
    taskId,
    principal: ADA.principal.id,
    sessionId: ADA.sessionId,
    client: { revision, capabilities, fingerprint, info, handle },
    era: 'stateful',
    wraps: false,
    status: 'working',
    description: Buffer.from(`{"taskId":"${taskId}","status":"working"}`),
    ttlMs: 60_000,
    pollIntervalMs: null,
    answer: null,
    ...more,
  };
}
