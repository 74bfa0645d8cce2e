import type { DesiredState } from '../model/desired-state.ts';
import type { Components } from './components.ts';

/** What agents leave behind that are removed from the desired state while the gateway runs. */
export class RemovedAgents {
  readonly #components: Components;
  /** Names of the agents of the state in force. */
  #agents: ReadonlySet<string>;

  constructor(components: Components) {
    this.#components = components;
    this.#agents = new Set(components.registry.state.agents.keys());
  }

  /** Deletes credentials and tasks of removed agents and closes their connections: another agent may get the same name. */
  forget(now: DesiredState['agents']): void {
    const { credentials, gateway, logins, logger, upstreams } = this.#components;
    const gone = new Set([...this.#agents].filter((name) => !now.has(name)).map((name) => `agent:${name}`));
    this.#agents = new Set(now.keys());
    for (const removed of gone) {
      gateway.tasks.forget(removed);
      for (const { name: server } of upstreams.servers()) {
        const log = (error: unknown): void =>
          logger.warn('connection_not_closed', { server, principal: removed, error });
        upstreams.surrender(server, { removed }).catch(log);
      }
    }
    for (const { server, principal } of gone.size === 0 ? [] : credentials.list()) {
      if (principal === null || !gone.has(principal)) continue;
      logger.info('credential_forgotten', { server, principal, reason: 'the agent was removed' });
      logins
        .revoke(server, principal)
        .catch((error: unknown) => logger.warn('credential_not_forgotten', { server, principal, error }));
    }
  }
}
