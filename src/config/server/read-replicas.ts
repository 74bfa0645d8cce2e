import { isOwnProcess, type Server } from '../../model/server.ts';
import { DEFAULTS } from '../defaults.ts';
import { child } from '../document/node.ts';
import type { FieldReader } from './field-reader.ts';

/** How many processes share the calls of a server: one, unless it is a process that everybody shares. */
export function readReplicas(
  fields: FieldReader,
  { transport, isolation, limits }: Pick<Server, 'transport' | 'isolation' | 'limits'>,
): number {
  const replicas = fields.number('replicas') ?? DEFAULTS.replicas;
  if (replicas === 1) return 1;
  const { path } = fields;
  const error = (message: string, hint: string) =>
    fields.error('TL1306', child(fields.node, 'replicas') ?? null, message, hint);
  if (!isOwnProcess({ transport })) {
    error(`${path} is no process that could be run ${replicas} times`, 'leave out "replicas"');
  } else if (isolation !== 'shared') {
    error(
      `${path} has ${replicas} replicas, among which only calls to a shared server are divided`,
      'add "isolation": "shared", or leave out "replicas"',
    );
  } else if (replicas > limits.maxProcesses) {
    const { maxProcesses } = limits;
    error(`${path} has ${replicas} replicas and at most ${maxProcesses} processes`, 'raise "limits.maxProcesses"');
  }
  return replicas;
}
