import { TOOL_NAME_DELIMITER } from '../model/names.ts';
import { URL_KINDS } from '../model/server.ts';
import { DOWN, type ServerStatus } from '../model/server-state.ts';
import type { ControlPlane } from './control-plane.ts';
import type { CompatKeys, ServerView } from './schemas.ts';

/** A server as the control API shows it: observed status, definition, desired state and drift. */
export function serverView(status: ServerStatus, plane: Pick<ControlPlane, 'desired' | 'drift'>): ServerView {
  return { ...statusView(status), desired: plane.desired(status.name), drift: plane.drift.summary(status.name) };
}

/** The current status, with the resource usage of the processes; null for an unknown server. */
export async function statusWithUsage(
  name: string,
  { upstreams, usages }: Pick<ControlPlane, 'upstreams' | 'usages'>,
): Promise<ServerStatus | null> {
  const pids = upstreams.status(name)?.connections.flatMap(({ pid }) => pid ?? []) ?? [];
  const used = await usages.of(new Set(pids));
  const status = upstreams.status(name);
  if (status === null) return null;
  const connections = status.connections.map((one) => {
    const usage = one.pid === null ? undefined : used.get(one.pid);
    return usage === undefined ? one : { ...one, usage };
  });
  return { ...status, connections };
}

/** The part of the view that depends on the status alone. */
export type StatusView = Omit<ServerView, 'desired' | 'drift'>;

export function statusView(status: ServerStatus): StatusView {
  const { definition, ...observed } = status;
  return { ...observed, ...definition, compat: compatKeys(status) };
}

function compatKeys(status: ServerStatus): CompatKeys {
  const { name, transport, sshHost, endpoint, initialized, revision, definition } = status;
  return {
    type: transport,
    serviceType: 'mcpserver',
    external: (URL_KINDS as readonly string[]).includes(transport),
    localProcess: transport === 'stdio' && sshHost === null,
    ssh: sshHost !== null,
    autoStart: definition.enabled && definition.start === 'eager',
    url: endpoint,
    timeout: definition.timeoutMs / 1000,
    error: status.health === 'unhealthy' || DOWN.has(status.state) ? status.reason : null,
    clientReady: initialized,
    client: initialized ? { transport, revision } : null,
    toolPrefix: name + TOOL_NAME_DELIMITER,
    family: null,
    auth: definition.auth === null ? null : { type: definition.auth },
    lastAttempt: time(status.lastAttemptAt),
    nextRetryAfter: time(status.nextRetryAt),
  };
}

function time(wallMs: number | null): string | null {
  return wallMs === null ? null : new Date(wallMs).toISOString();
}
