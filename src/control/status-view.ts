import { TOOL_NAME_DELIMITER } from '../model/names.ts';
import { namesSecret } from '../model/secret-words.ts';
import { DOWN, type ServerStatus } from '../model/server-state.ts';

/** A server's status as the control API shows it: ours, and the keys that programs written for the seeds read (S2.24). */
export interface StatusView extends Omit<ServerStatus, 'definition'> {
  /** Reached by URL: nothing of ours to start. */
  readonly external: boolean;
  /** A process of this machine. */
  readonly localProcess: boolean;
  /** Reached through a remote shell; `sshHost` says where. */
  readonly ssh: boolean;
  /** What kind of thing it is among those that a seed supervises (S3.15). */
  readonly serviceType: 'mcpserver';
  /** The keys of S3.16, where we have other words. */
  readonly type: ServerStatus['transport'];
  readonly autoStart: boolean;
  readonly command: string | null;
  readonly args: readonly string[];
  readonly url: string | null;
  /** Names with `[redacted]`. */
  readonly env: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  /** Seconds. */
  readonly timeout: number;
  readonly description: string | null;
  readonly error: string | null;
  readonly clientReady: boolean;
  /** How the gateway speaks with it; null while it does not. */
  readonly client: { readonly transport: ServerStatus['transport']; readonly revision: string | null } | null;
  /** Its tools are exposed under this prefix. */
  readonly toolPrefix: string;
  /** This gateway has no families of equivalent servers. */
  readonly family: null;
  /** Set where a header or variable of its definition is named like a credential; values are never shown. */
  readonly auth: { readonly type: 'static' } | null;
  /** ISO 8601; null for never, or none. */
  readonly lastAttempt: string | null;
  readonly nextRetryAfter: string | null;
}

export function statusView(status: ServerStatus): StatusView {
  const { definition, ...observed } = status;
  const { transport, sshHost, lastAttemptAt, nextRetryAt } = observed;
  const { command, args, env, headers, description } = definition;
  return {
    ...observed,
    external: transport === 'http' || transport === 'sse' || transport === 'json',
    localProcess: transport === 'stdio' && sshHost === null,
    ssh: sshHost !== null,
    serviceType: 'mcpserver',
    type: transport,
    autoStart: definition.enabled && definition.start === 'eager',
    command,
    args,
    url: status.endpoint,
    env,
    headers,
    timeout: definition.timeoutMs / 1000,
    description,
    error: status.health === 'unhealthy' || DOWN.has(status.state) ? status.reason : null,
    clientReady: status.initialized,
    client: status.initialized ? { transport, revision: status.revision } : null,
    toolPrefix: status.name + TOOL_NAME_DELIMITER,
    family: null,
    auth: [...Object.keys(headers), ...Object.keys(env)].some(namesSecret) ? { type: 'static' } : null,
    lastAttempt: time(lastAttemptAt),
    nextRetryAfter: time(nextRetryAt),
  };
}

function time(wallMs: number | null): string | null {
  return wallMs === null ? null : new Date(wallMs).toISOString();
}
