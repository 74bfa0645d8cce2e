import type { TaskPlane } from '../../control/control-plane.ts';
import { OPERATOR } from '../../model/client-profile.ts';
import type { TaskRecord } from '../../model/ports.ts';
import type { TaskView } from '../../model/task-view.ts';
import { sessionLabel } from '../../telemetry/session-label.ts';
import type { Components } from '../components.ts';

/** Returns the tasks of all callers, for the operator. */
export function taskPlane({ gateway, authenticator }: Pick<Components, 'gateway' | 'authenticator'>): TaskPlane {
  return {
    list: () => gateway.tasks.all().map(taskView),
    async cancel(key) {
      const record = gateway.tasks.get(key);
      if (record === null) return null;
      const { principal: id } = record;
      // The task of a removed agent can be cancelled too.
      const owner = authenticator.principal(id) ?? { ...OPERATOR, id, name: id };
      return taskView(await gateway.tasks.cancel(record, owner));
    },
  };
}

function taskView(record: TaskRecord): TaskView {
  const { key, server, principal, client, sessionId, era, status, description, startedAt, expiresAt, ttlMs } = record;
  return {
    key,
    server,
    principal,
    client: nameOf(client.info),
    session: sessionId === null ? null : sessionLabel(sessionId),
    era,
    status,
    message: messageIn(description),
    startedAt: new Date(startedAt).toISOString(),
    expiresAt: new Date(expiresAt).toISOString(),
    ttlMs,
  };
}

function nameOf(info: string | null): string | null {
  if (info === null) return null;
  const { name = '', version = '' } = JSON.parse(info) as Partial<Record<'name' | 'version', string>>;
  return `${name} ${version}`.trim() || null;
}

function messageIn(description: Buffer): string | null {
  const { statusMessage } = JSON.parse(description.toString()) as { readonly statusMessage?: unknown };
  return typeof statusMessage === 'string' ? statusMessage : null;
}
