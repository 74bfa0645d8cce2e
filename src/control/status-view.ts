import type { ServerStatus } from '../model/server-state.ts';

/** A server's status as the control API shows it: ours, and the keys that programs written for the seeds read (S2.24). */
export interface StatusView extends ServerStatus {
  /** Reached by URL: nothing of ours to start. */
  readonly external: boolean;
  /** A process of this machine. */
  readonly localProcess: boolean;
  /** Reached through a remote shell; `sshHost` says where. */
  readonly ssh: boolean;
}

export function statusView(status: ServerStatus): StatusView {
  const { transport, sshHost } = status;
  return {
    ...status,
    external: transport === 'http' || transport === 'sse' || transport === 'json',
    localProcess: transport === 'stdio' && sshHost === null,
    ssh: sshHost !== null,
  };
}
