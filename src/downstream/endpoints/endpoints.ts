import type { IncomingHttpHeaders } from 'node:http';
import { type ClientProfile, mayUse, type Principal } from '../../model/client-profile.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { AGGREGATE, type Endpoint, serverEndpoint } from '../../model/exchange.ts';

/** The client-facing virtual servers: the aggregate, and one for every enabled server. */
export class Endpoints {
  readonly #state: () => DesiredState;
  /** The state from which the tables below were built. */
  #known: DesiredState | null = null;
  readonly #servers = new Map<string, Endpoint>();
  readonly #isolation = new Map<string, readonly string[]>();
  readonly #forwarded = new Map<string, readonly string[]>();

  constructor(state: () => DesiredState) {
    this.#state = state;
  }

  /** The endpoint of one server; null if it does not exist or the caller may not use it. The caller cannot tell which. */
  server(name: string, principal: Principal): Endpoint | null {
    this.#refresh();
    const endpoint = this.#servers.get(name);
    return endpoint !== undefined && mayUse(principal, name) ? endpoint : null;
  }

  /**
   * The isolation handle of a stateless client: the values of the headers that the operator named for the servers behind
   * the endpoint; null without any.
   */
  handleOf(endpoint: Endpoint, headers: IncomingHttpHeaders): string | null {
    this.#refresh();
    const names = this.#isolation.get(endpoint.server);
    if (names === undefined) return null;
    if (names.length === 1) return text(headers[names[0]!]);
    const values = names.map((name) => text(headers[name]));
    return values.every((value) => value === null) ? null : JSON.stringify(values);
  }

  /** Values of the headers that servers behind the endpoint get from their callers; undefined without any. */
  forwardedOf(endpoint: Endpoint, headers: IncomingHttpHeaders): ClientProfile['forwarded'] {
    this.#refresh();
    const names = this.#forwarded.get(endpoint.server);
    if (names === undefined) return undefined;
    const values = names.flatMap((name) => {
      const value = text(headers[name]);
      return value === null ? [] : [[name, value] as const];
    });
    return values.length === 0 ? undefined : Object.fromEntries(values);
  }

  #refresh(): void {
    const state = this.#state();
    if (state === this.#known) return;
    this.#known = state;
    this.#servers.clear();
    this.#isolation.clear();
    this.#forwarded.clear();
    const all = new Set<string>();
    const allForwarded = new Set<string>();
    for (const { name, enabled, isolationHeader, onlyFor, callerSeparation } of state.servers.values()) {
      // A server that was added for one session is reachable on that session's endpoint only.
      if (!enabled || onlyFor !== undefined) continue;
      this.#servers.set(name, serverEndpoint(name));
      const forwarded = Object.keys(callerSeparation?.headers ?? {});
      if (forwarded.length > 0) this.#forwarded.set(name, forwarded);
      for (const header of forwarded) allForwarded.add(header);
      if (isolationHeader === null) continue;
      this.#isolation.set(name, [isolationHeader.toLowerCase()]);
      all.add(isolationHeader.toLowerCase());
    }
    if (allForwarded.size > 0) this.#forwarded.set(AGGREGATE.server, [...allForwarded].sort());
    if (all.size > 0) this.#isolation.set(AGGREGATE.server, [...all].sort());
  }
}

function text(value: string | string[] | undefined): string | null {
  if (value === undefined) return null;
  return typeof value === 'string' ? value : value.join(',');
}
