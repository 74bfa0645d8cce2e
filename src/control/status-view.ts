import type { ServerStatus } from '../model/server-state.ts';

/** A server's status as the control API shows it: ours, and the keys that programs written for the seeds read (S2.24). */
export interface StatusView extends ServerStatus {
  /** Reached by URL: nothing of ours to start. */
  readonly external: boolean;
  /** A process of this machine. */
  readonly localProcess: boolean;
  /** Reached through a remote shell, and on which host; so far no transport is. */
  readonly ssh: boolean;
  readonly sshHost: string | null;
  readonly containerId: string | null;
}

export function statusView(status: ServerStatus): StatusView {
  const { transport } = status;
  return {
    ...status,
    external: transport === 'http' || transport === 'sse' || transport === 'json',
    localProcess: transport === 'stdio',
    ssh: false,
    sshHost: null,
    containerId: null,
  };
}
