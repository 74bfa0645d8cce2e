import { statusView } from '../../control/server-view.ts';
import type { InvalidItem, ListKind } from '../../model/server-catalog.ts';
import type { AuthChallenge, RecoveryStep, ServerStatus } from '../../model/server-state.ts';
import { outsideServers } from '../../upstream/error-boundary.ts';
import type { ServerObserver } from '../app-options.ts';
import type { GatewayEvents } from './gateway-api.ts';
import type { GatewayOptions } from './gateway-options.ts';

/** What another node does causes no event here: code that waits for it polls at this interval. */
const LOOK_MS = 100;

type Listeners = { [E in keyof GatewayEvents]: Set<GatewayEvents[E]> };

/** Tells programs what happens to servers and to the gateway, and lets the gateway wait for servers. */
export class ServerWatch implements ServerObserver {
  readonly #listeners: Listeners = {
    serverChanged: new Set(),
    toolsChanged: new Set(),
    recovery: new Set(),
    listItemInvalid: new Set(),
    drainAsked: new Set(),
  };
  readonly #hook: GatewayOptions['beforeAuthRequired'];
  readonly #waiting = new Set<() => void>();
  /** Servers that were up and listed, and whether they are. */
  readonly #offering = new Map<string, boolean>();
  /** Set by the gateway once it is there: whether a server is registered. */
  registered: (name: string) => boolean = () => false;

  constructor(beforeAuthRequired: GatewayOptions['beforeAuthRequired']) {
    this.#hook = beforeAuthRequired;
  }

  on<E extends keyof GatewayEvents>(event: E, listener: GatewayEvents[E]): () => void {
    const listeners: Set<GatewayEvents[E]> = this.#listeners[event];
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  statusChanged(name: string, status: ServerStatus): void {
    this.#look();
    // A server that was taken away has had its last word, though it is still stopping.
    if (!this.registered(name)) return;
    this.#later(() => {
      for (const listener of [...this.#listeners.serverChanged]) listener(name, statusView(status));
    });
    this.#withdrawn(name, status);
  }

  catalogChanged(server: string, _fingerprint: string, lists: readonly ListKind[]): void {
    if (lists.includes('tools')) this.#toolsChanged(server);
  }

  beforeAuthRequired(status: ServerStatus, challenge: AuthChallenge): void {
    outsideServers(() => this.#hook?.(statusView(status), challenge));
  }

  recovery(server: string, step: RecoveryStep, reason: string | null): void {
    this.#later(() => {
      for (const listener of [...this.#listeners.recovery]) listener(server, step, reason);
    });
  }

  listItemInvalid(server: string, invalid: InvalidItem): void {
    this.#later(() => {
      for (const listener of [...this.#listeners.listItemInvalid]) listener(server, invalid);
    });
  }

  removed(name: string): void {
    this.#offering.delete(name);
    this.#look();
    this.#later(() => {
      for (const listener of [...this.#listeners.serverChanged]) listener(name, null);
    });
  }

  drainAsked(): void {
    this.#later(() => {
      for (const listener of [...this.#listeners.drainAsked]) listener();
    });
  }

  /** Resolves when `condition` holds, or after `timeoutMs`. `elsewhere`: other nodes may bring it about too. */
  until(condition: () => boolean, timeoutMs: number, elsewhere: boolean): Promise<void> {
    if (condition()) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        clearInterval(looking);
        this.#waiting.delete(look);
        resolve();
      };
      const look = (): void => {
        if (condition()) done();
      };
      const timer = setTimeout(done, timeoutMs);
      const looking = elsewhere ? setInterval(look, LOOK_MS) : undefined;
      this.#waiting.add(look);
    });
  }

  #look(): void {
    for (const look of [...this.#waiting]) look();
  }

  /** The tools of a server go when it does, and come when it comes back (S4.11). */
  #withdrawn(name: string, { initialized, toolCount }: ServerStatus): void {
    const before = this.#offering.get(name);
    if (toolCount === 0 || initialized === before || (before === undefined && !initialized)) return;
    this.#offering.set(name, initialized);
    // Those of its first start are reported when they are listed.
    if (before !== undefined) this.#toolsChanged(name);
  }

  #toolsChanged(server: string): void {
    this.#later(() => {
      for (const listener of [...this.#listeners.toolsChanged]) listener(server);
    });
  }

  /** Listeners run apart from what they hear of: what one throws is the program's, and breaks nothing here. */
  #later(tell: () => void): void {
    outsideServers(() => queueMicrotask(tell));
  }
}

/** Whether a start has come to an end, good or bad; a lazy server has none until it is first called. */
export function isSettled({ state, definition, nextRetryAt, startedInMs }: ServerStatus): boolean {
  switch (state) {
    case 'unknown':
      return definition.start === 'lazy' || nextRetryAt !== null;
    case 'starting':
    case 'stopping':
      return false;
    case 'running':
    case 'connected':
      return startedInMs !== null;
    default:
      return true;
  }
}
