import type { RunAs } from '../../model/server.ts';
import { child, objectAt } from '../document/node.ts';
import type { FieldReader } from './field-reader.ts';

/** Whose process a local server's is (F41). */
export function readRunAs(fields: FieldReader): RunAs | null {
  const found = fields.first('runAs');
  const node = found === null ? undefined : objectAt(fields.node, 'runAs');
  if (found === null || node === undefined) return null;
  if (fields.has('ssh')) {
    const message = `${fields.path}.runAs has no effect beside "ssh", which names the user`;
    fields.problems.warn('TL1307', fields.source, found.node.span, message);
    return null;
  }
  const user = child(node, 'user');
  const processes = child(node, 'processes');
  return {
    user: user?.kind === 'string' ? user.text : user?.kind === 'number' ? String(user.value) : '',
    processes: processes?.kind === 'number' ? (processes.value as number) : null,
  };
}
