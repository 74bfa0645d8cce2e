import { MIN_KEY_LENGTH } from '../../config/settings/agents.ts';
import type { Principal } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { Secret } from '../../model/secret.ts';
import type { App } from '../app.ts';
import { Operator, operatorProfile } from '../operator.ts';
import type { Overlay } from './overlay.ts';

/** Names of callers that are not agents. */
const RESERVED: ReadonlySet<string> = new Set(['operator', 'anonymous', '']);

/** The agents that the program has registered, and the callers that act for agents (S2.28). */
export class Agents {
  readonly #app: App;
  readonly #overlay: Overlay;
  /** One principal object for each agent, because catalogues are cached by it. */
  readonly #operators = new Map<string, Operator>();

  constructor(app: App, overlay: Overlay) {
    this.#app = app;
    this.#overlay = overlay;
  }

  async register(name: string, servers: readonly string[], key: string | null): Promise<void> {
    if (RESERVED.has(name)) {
      throw new GatewayError('INVALID_PARAMS', `${JSON.stringify(name)} cannot be the name of an agent`);
    }
    if (key !== null && key.length < MIN_KEY_LENGTH) {
      throw new GatewayError('INVALID_PARAMS', `the key of agent ${name} is shorter than ${MIN_KEY_LENGTH} characters`);
    }
    for (const other of key === null ? [] : this.#app.state.agents.values()) {
      if (other.name !== name && other.key.reveal() === key) {
        throw new GatewayError(
          'INVALID_PARAMS',
          `agent ${other.name} has the same key as agent ${name}: use another key`,
        );
      }
    }
    const { authenticator, logger } = this.#app.components;
    if (key !== null) {
      logger.addSecret(key);
      authenticator.keysOnly = true;
    }
    const kept = key === null ? this.#overlay.agents.get(name)?.key : new Secret(key);
    this.#overlay.agents.set(name, { servers: new Set(servers), key: kept ?? null });
    this.#operators.delete(name);
    const { connected } = authenticator;
    const { principal } = this.operator(name).profile;
    if (connected.has(principal.id)) connected.set(principal.id, principal);
    await this.#app.applyOverlay();
    this.#app.reauthorize();
  }

  async unregister(name: string): Promise<boolean> {
    const known = this.#overlay.agents.delete(name);
    this.#operators.delete(name);
    if (known) this.#app.components.authenticator.connected.delete(`agent:${name}`);
    await this.#app.applyOverlay();
    this.#app.reauthorize();
    return known;
  }

  allowedServers(name: string): readonly string[] | null {
    const allowed = this.#allowed(name);
    return allowed === null ? null : [...allowed].sort();
  }

  /** Returns the principal for a connection of the agent; later changes of its rights apply to the connection. */
  connect(name: string | undefined): Principal {
    const { principal } = this.operator(name).profile;
    const { authenticator } = this.#app.components;
    const hasKey = authenticator.principal(principal.id) !== null;
    if (name !== undefined && !hasKey) authenticator.connected.set(principal.id, principal);
    return principal;
  }

  /**
   * Returns the caller: the agent, or the program itself. `session`: the session of a client, or the name of a conversation.
   * Throws GatewayError ACCESS_DENIED if the session belongs to another caller than the named agent.
   */
  operator(name: string | undefined, session?: string): Operator {
    const { ownCalls, random, operator, downstream } = this.#app.components;
    if (session !== undefined) {
      const { profile } = this.operator(name);
      const found = downstream.sessions.find(session);
      const client = found?.client;
      if (client !== undefined && name !== undefined && client.principal.id !== profile.principal.id) {
        throw new GatewayError('ACCESS_DENIED', `the session is not one of agent ${name}`);
      }
      if (found !== undefined) found.lastUsed = this.#app.components.clock.now();
      return new Operator(ownCalls, random, client ?? { ...profile, handle: session });
    }
    if (name === undefined) return operator;
    const allowed = this.#allowed(name);
    const known = this.#operators.get(name);
    if (known?.profile.principal.servers === allowed) return known;
    const principal: Principal = { id: `agent:${name}`, name, servers: allowed };
    const made = new Operator(ownCalls, random, operatorProfile(operator.profile.info ?? '{}', principal));
    this.#operators.set(name, made);
    return made;
  }

  /** Returns null for every server, also for an agent that is neither registered nor configured. */
  #allowed(name: string): ReadonlySet<string> | null {
    return this.#overlay.agents.get(name)?.servers ?? this.#app.state.agents.get(name)?.servers ?? null;
  }
}
