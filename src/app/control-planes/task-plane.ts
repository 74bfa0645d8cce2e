import type { TaskPlane } from '../../control/control-plane.ts';
import { OPERATOR } from '../../model/client-profile.ts';
import type { TaskRecord } from '../../model/ports.ts';
import type { TaskView } from '../../model/task-view.ts';
import { sessionLabel } from '../../telemetry/session-label.ts';
import type { Components } from '../components.ts';

/** Returns the tasks of all callers, for the operator. */
export function taskPlane({
  gateway,
  authenticator,
  calls,
}: Pick<Components, 'gateway' | 'authenticator' | 'calls'>): TaskPlane {
  const view = (record: TaskRecord): TaskView => taskView(record, calls.clientName(record.client.info));
  return {
    list: () => gateway.tasks.all().map(view),
    async cancel(key) {
      const record = gateway.tasks.get(key);
      if (record === null) return null;
      const { principal: id } = record;
      // The task of a removed agent can be cancelled too.
      const owner = authenticator.principal(id) ?? { ...OPERATOR, id, name: id };
      return view(await gateway.tasks.cancel(record, owner));
    },
  };
}

function taskView(record: TaskRecord, client: string | null): TaskView {
  const { key, server, principal, sessionId, era, status, description, startedAt, expiresAt, ttlMs } = record;
  return {
    key,
    server,
    principal,
    client,
    session: sessionId === null ? null : sessionLabel(sessionId),
    era,
    status,
    message: messageIn(description),
    startedAt: new Date(startedAt).toISOString(),
    expiresAt: new Date(expiresAt).toISOString(),
    ttlMs,
  };
}

function messageIn(description: Buffer): string | null {
  const { statusMessage } = JSON.parse(description.toString()) as { readonly statusMessage?: unknown };
  return typeof statusMessage === 'string' ? statusMessage : null;
}
