import { setTimeout as sleep } from 'node:timers/promises';
import type { Json } from './raw-http.ts';
import { WireClient, type WireClientOptions } from './wire-client.ts';

export type Era = 'stateful' | 'stateless';

const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} } };
const ENDED = ['completed', 'failed', 'cancelled'];
const POLL_MS = 20;

/** A client that uses tasks in the words of its era. */
export class TaskClient {
  readonly wire: WireClient;
  readonly era: Era;

  private constructor(wire: WireClient) {
    this.wire = wire;
    this.era = wire.era;
  }

  static async open(url: string, era: Era, options: WireClientOptions = {}): Promise<TaskClient> {
    const { capabilities = { elicitation: {} } } = options;
    if (era === 'stateful') return new TaskClient(await WireClient.open(url, { ...options, capabilities }));
    return new TaskClient(new WireClient(url, era, { ...options, capabilities: { ...capabilities, ...TASKS } }));
  }

  /** The task that the call began. */
  async start(name: string, args: object = {}, more: object = {}): Promise<Json> {
    const params = { name, arguments: args, ...more };
    if (this.era === 'stateful')
      return (await this.wire.result('tools/call', { task: { ttl: 60_000 }, ...params })).task;
    const result = await this.wire.result('tools/call', params);
    if (result.resultType !== 'task') throw new Error(`no task: ${JSON.stringify(result)}`);
    return result;
  }

  get(taskId: string): Promise<Json> {
    return this.wire.result('tasks/get', { taskId });
  }

  /** The task once it has this status, or has ended. */
  async until(taskId: string, ...statuses: readonly string[]): Promise<Json> {
    for (;;) {
      const task = await this.get(taskId);
      if (statuses.includes(task.status) || ENDED.includes(task.status)) return task;
      await sleep(POLL_MS);
    }
  }

  /** How the call ended: `{ result }` or `{ error }`. Input requests on the way get `answer`. */
  async outcome(taskId: string, answer: object = {}): Promise<Json> {
    if (this.era === 'stateful') {
      this.wire.answer = () => answer;
      const { message } = await this.wire.request('tasks/result', { taskId });
      return message.error === undefined ? { result: message.result } : { error: message.error };
    }
    let task = await this.until(taskId, 'input_required');
    if (task.status === 'input_required') {
      const keys = Object.keys(task.inputRequests);
      const inputResponses = Object.fromEntries(keys.map((key) => [key, answer]));
      await this.wire.result('tasks/update', { taskId, inputResponses });
      task = await this.until(taskId);
    }
    return task.error === undefined ? { result: task.result, status: task.status } : { error: task.error };
  }

  /** Waits until the task is unknown; returns the error. */
  async gone(taskId: string): Promise<Json> {
    for (;;) {
      const { message } = await this.wire.request('tasks/get', { taskId });
      if (message.error !== undefined) return message.error;
      await sleep(POLL_MS);
    }
  }

  /** The JSON-RPC error of a request that must not succeed. */
  async refusal(method: string, params: object): Promise<Json> {
    const { message } = await this.wire.request(method, params);
    if (message.error === undefined) throw new Error(`${method} succeeded: ${JSON.stringify(message)}`);
    return message.error;
  }
}
