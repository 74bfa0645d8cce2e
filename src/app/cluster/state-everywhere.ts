import type { DesiredState } from '../../model/desired-state.ts';
import type { Upstreams } from '../../model/ports.ts';
import type { Server } from '../../model/server.ts';

/** The desired state, with the servers of all nodes in place of those of this one. The same object while nothing changed. */
export function stateEverywhere(own: () => DesiredState, everywhere: Upstreams): () => DesiredState {
  let state: DesiredState | null = null;
  let servers: readonly Server[] = [];
  let joined: DesiredState | null = null;
  return () => {
    const now = own();
    const all = everywhere.servers();
    if (joined === null || now !== state || all !== servers) {
      state = now;
      servers = all;
      joined = { ...now, servers: new Map(all.map((server) => [server.name, server])) };
    }
    return joined;
  };
}
