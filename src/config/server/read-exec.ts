import type { ExecSpec } from '../../model/credentials.ts';
import { DEFAULTS } from '../defaults.ts';
import type { FieldReader } from './field-reader.ts';
import { readEnv } from './read-stdio.ts';

/** The credential program of `auth`; undefined after a problem, null without one. */
export function readExec(auth: FieldReader | undefined): ExecSpec | null | undefined {
  const fields = auth?.inner('exec') ?? null;
  if (fields === null) return null;
  const command = fields.text('command');
  const args = fields.has('args') ? fields.words('args') : [];
  const env = readEnv(fields);
  if (command === null || args === null || env === null) return undefined;
  if ([command, ...args].some((word) => word.includes('\0'))) {
    fields.error('TL1207', null, `${fields.path}: the command or an argument holds a NUL character`);
    return undefined;
  }
  const timeout = fields.first('timeoutMs')?.node;
  const timeoutMs = timeout?.kind === 'number' ? (timeout.value as number) : DEFAULTS.execTimeoutMs;
  return { command: fields.resolveCommand(command), args, env, cwd: fields.context.folder, timeoutMs };
}
