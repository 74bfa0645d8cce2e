import { resolve } from 'node:path';
import type { TestContext } from 'node:test';
import { TaskServer } from '../fixtures/tasks/http.ts';
import { RunningGateway } from './running-gateway.ts';
import type { Era } from './task-client.ts';

export const ERAS: readonly Era[] = ['stateful', 'stateless'];
const STDIO = resolve(import.meta.dirname, '../fixtures/tasks/stdio.ts');

export const agents = { ada: { key: 'key-of-ada-0123456789' }, bob: { key: 'key-of-bob-0123456789' } };

export const keyOf = (name: string) => ({ authorization: `Bearer key-of-${name}-0123456789` });

/** The definition of a server with tasks over stdio. */
export function stdio(era: Era): object {
  return { command: process.execPath, args: [STDIO], env: { ERA: era } };
}

/** One server of the era over HTTP, named `s`, behind a gateway of its own. */
export async function alone(t: TestContext, era: Era, more: object = {}): Promise<[RunningGateway, TaskServer]> {
  const server = await TaskServer.start(era);
  t.after(() => server.stop());
  const config = { mcpServers: { s: { type: 'http', url: server.url }, ...more }, agents };
  const gateway = await RunningGateway.start({ config });
  t.after(() => gateway.dispose());
  await gateway.ready();
  return [gateway, server];
}
