import type { ServerInfo } from '@nats-io/transport-node';

/** The oldest nats-server that this was tried with. */
const OLDEST = [2, 9] as const;

/** What a NATS server does not have of what a cluster needs, for operators, as far as it says so itself. */
export function serverLacks(info: ServerInfo): readonly string[] {
  const lacks: string[] = [];
  const [major = 0, minor = 0] = info.version.split('.').map((part) => Number.parseInt(part, 10));
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    lacks.push(`nats-server ${info.version} is too old: ${OLDEST.join('.')} is the oldest that works`);
  }
  if (info.headers !== true) lacks.push('headers are off, so that a call without a receiver looks like a slow one');
  return lacks;
}
