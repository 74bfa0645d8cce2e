import type { DesiredState } from '../../model/desired-state.ts';
import type { Secret } from '../../model/secret.ts';
import type { Server } from '../../model/server.ts';

/** Where an embedded gateway opens its listeners. */
export interface ListenAddress {
  readonly host?: string;
  readonly port?: number;
  readonly controlPort?: number;
}

/** What a program has registered; without a key of its own, the agent has the key of the configuration, if there is one. */
interface RegisteredAgent {
  readonly servers: ReadonlySet<string>;
  readonly key: Secret | null;
}

/**
 * The changes of a program to the configuration: added and removed servers, agents, listener addresses. They survive
 * reloads; a definition of the program overrides that of the configuration.
 */
export class Overlay {
  readonly servers = new Map<string, Server>();
  readonly agents = new Map<string, RegisteredAgent>();
  /** Configured servers that the program has unregistered. */
  readonly hidden = new Set<string>();
  readonly suspended = new Set<string>();
  /** Timeouts of calls by server, in milliseconds; also of servers that are not registered yet (S4.14). */
  readonly timeouts = new Map<string, number>();
  address: ListenAddress = {};

  readonly apply = (state: DesiredState): DesiredState => {
    const servers = new Map([...state.servers].filter(([name]) => !this.hidden.has(name)));
    for (const [name, server] of this.servers) servers.set(name, server);
    for (const [name, timeoutMs] of this.timeouts) {
      const server = servers.get(name);
      if (server !== undefined) servers.set(name, { ...server, timeoutMs });
    }
    for (const name of this.suspended) {
      const server = servers.get(name);
      if (server !== undefined) servers.set(name, { ...server, enabled: false });
    }
    const agents = new Map(state.agents);
    for (const [name, { servers, key }] of this.agents) {
      const agent = key === null ? agents.get(name) : { name, key };
      if (agent !== undefined) agents.set(name, { ...agent, servers });
    }
    const { host, port, controlPort } = this.address;
    return {
      ...state,
      servers,
      maxTimeoutMs: Math.max(state.maxTimeoutMs, ...this.timeouts.values()),
      agents,
      listen: { ...state.listen, host: host ?? state.listen.host, port: port ?? state.listen.port },
      control: { ...state.control, port: controlPort ?? state.control.port },
    };
  };
}
