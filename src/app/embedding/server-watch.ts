import { statusView } from '../../control/server-view.ts';
import type { ConditionName } from '../../model/conditions.ts';
import type { InvalidItem, ListKind } from '../../model/server-catalog.ts';
import type { AuthChallenge, RecoveryStep, ServerStatus } from '../../model/server-state.ts';
import { outsideServers } from '../../upstream/error-boundary.ts';
import type { ServerObserver } from '../app-options.ts';
import type { GatewayEvents } from './gateway-api.ts';
import type { GatewayOptions } from './gateway-options.ts';

/** Changes at another node cause no event here: code that waits for them polls at this interval. */
const POLL_MS = 100;

type Listeners = { [E in keyof GatewayEvents]: Set<GatewayEvents[E]> };

/** Reports events of servers and of the gateway to programs, and lets the gateway wait for servers. */
export class ServerWatch implements ServerObserver {
  readonly #listeners: Listeners = {
    serverChanged: new Set(),
    toolsChanged: new Set(),
    recovery: new Set(),
    listItemInvalid: new Set(),
    loginNeeded: new Set(),
    condition: new Set(),
    drainAsked: new Set(),
  };
  readonly #hook: GatewayOptions['beforeAuthRequired'];
  readonly #waiting = new Set<() => void>();
  /** Servers that have offered tools, and whether they are up. */
  readonly #offering = new Map<string, boolean>();

  constructor(beforeAuthRequired: GatewayOptions['beforeAuthRequired']) {
    this.#hook = beforeAuthRequired;
  }

  on<E extends keyof GatewayEvents>(event: E, listener: GatewayEvents[E]): () => void {
    const listeners: Set<GatewayEvents[E]> = this.#listeners[event];
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  statusChanged(name: string, status: ServerStatus, desired: boolean): void {
    this.#checkWaiting();
    // `removed` was the last event of a removed server, although that is still stopping.
    if (!desired) return;
    this.#emit('serverChanged', () => [name, statusView(status)]);
    this.#withdrawn(name, status);
  }

  catalogChanged(server: string, _fingerprint: string, lists: readonly ListKind[]): void {
    if (lists.includes('tools')) this.#toolsChanged(server);
  }

  beforeAuthRequired(status: ServerStatus, challenge: AuthChallenge): void {
    outsideServers(() => this.#hook?.(statusView(status), challenge));
  }

  recovery(server: string, step: RecoveryStep, reason: string | null): void {
    this.#emit('recovery', () => [server, step, reason]);
  }

  listItemInvalid(server: string, invalid: InvalidItem): void {
    this.#emit('listItemInvalid', () => [server, invalid]);
  }

  loginNeeded(server: string, principal: string | null, advice: string | null): void {
    this.#emit('loginNeeded', () => [server, principal, advice]);
  }

  condition(name: ConditionName, server: string | null, reason: string | null): void {
    this.#emit('condition', () => [name, server, reason]);
  }

  removed(name: string): void {
    this.#offering.delete(name);
    this.#checkWaiting();
    this.#emit('serverChanged', () => [name, null]);
  }

  drainAsked(): void {
    this.#emit('drainAsked', () => []);
  }

  /** Resolves when `condition` holds, or after `timeoutMs`. `elsewhere`: other nodes may make it hold, too. */
  until(condition: () => boolean, timeoutMs: number, elsewhere: boolean): Promise<void> {
    if (condition()) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    const look = (): void => {
      if (condition()) resolve();
    };
    const timer = setTimeout(resolve, timeoutMs);
    const looking = elsewhere ? setInterval(look, POLL_MS) : undefined;
    this.#waiting.add(look);
    return promise.finally(() => {
      clearTimeout(timer);
      clearInterval(looking);
      this.#waiting.delete(look);
    });
  }

  #checkWaiting(): void {
    for (const look of [...this.#waiting]) look();
  }

  /** Reports that the tools of a server are gone when it goes down, or back when it is up again (S4.11). */
  #withdrawn(name: string, { initialized, toolCount }: ServerStatus): void {
    const before = this.#offering.get(name);
    if (toolCount === 0 || initialized === before || (before === undefined && !initialized)) return;
    this.#offering.set(name, initialized);
    // `catalogChanged` reports the tools of its first start.
    if (before !== undefined) this.#toolsChanged(name);
  }

  #toolsChanged(server: string): void {
    this.#emit('toolsChanged', () => [server]);
  }

  /** Runs listeners outside the work for a server: their exceptions belong to the program and break nothing here. */
  #emit<E extends keyof GatewayEvents>(event: E, args: () => Parameters<GatewayEvents[E]>): void {
    const emit = (): void => {
      for (const listener of [...this.#listeners[event]]) (listener as (...all: unknown[]) => void)(...args());
    };
    outsideServers(() => queueMicrotask(emit));
  }
}
