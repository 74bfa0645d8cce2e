import type { ListPolicy } from '../../catalog/catalog-member.ts';
import type { Exchange } from '../../model/exchange.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Server } from '../../model/server.ts';
import type { Target } from '../target.ts';
import { access } from './access.ts';
import { approved } from './approved.ts';
import { paramHeaders } from './param-headers.ts';
import type { OfferPolicy, Policy, PolicyContext, PolicyFactory, UNDECIDED } from './policy.ts';
import { rateLimit } from './rate-limit.ts';
import { toolFilter } from './tool-filter.ts';

/** Policies that decide what a server offers: asked for each item of its lists as well. */
const OFFERING: readonly PolicyFactory<OfferPolicy>[] = [toolFilter];
/** Further policies of calls, in the order in which they are asked. */
const CALLING: readonly PolicyFactory[] = [approved, paramHeaders, rateLimit];

const KINDS = { tools: 'tool', prompts: 'prompt', resources: 'resource', resourceTemplates: 'template' } as const;

interface ServerPolicies {
  readonly server: Server;
  /** Whether an item is in the lists of the server; null where all are. */
  readonly lists: ListPolicy | null;
  /** All of them. */
  readonly calling: readonly Policy[];
}

/** What holds for a server that is not there, or not enabled: sending to it fails later. */
const UNKNOWN: readonly Policy[] = [access];

/**
 * What every request passes before it is sent: one list of policies per server, put together when the set of servers is
 * replaced. A server that did not change keeps its policies and what they count.
 */
export class Policies {
  readonly #context: PolicyContext;
  #servers: readonly Server[] | null = null;
  #byName = new Map<string, ServerPolicies>();

  constructor(context: PolicyContext) {
    this.#context = context;
  }

  /** The definition of an enabled server; null for any other name. */
  server(name: string): Server | null {
    return this.#of(name)?.server ?? null;
  }

  /** The first refusal; null where all policies let the target through. */
  admit(target: Target, exchange: Exchange): GatewayError | typeof UNDECIDED | null {
    if (target.admitted) return null;
    for (const policy of this.#of(target.server)?.calling ?? UNKNOWN) {
      const refused = policy(target, exchange);
      if (refused !== null) return refused;
    }
    target.admitted = true;
    return null;
  }

  /** Which items are in the lists of the server; null for all. */
  listsOf(server: string): ListPolicy | null {
    return this.#of(server)?.lists ?? null;
  }

  #of(name: string): ServerPolicies | undefined {
    const servers = this.#context.upstreams.servers();
    if (servers !== this.#servers) {
      this.#servers = servers;
      const before = this.#byName;
      this.#byName = new Map();
      for (const server of servers) {
        if (!server.enabled) continue;
        const same = before.get(server.name);
        this.#byName.set(server.name, same?.server === server ? same : this.#compose(server));
      }
    }
    return this.#byName.get(name);
  }

  #compose(server: Server): ServerPolicies {
    const offering = OFFERING.flatMap((factory) => factory(server, this.#context) ?? []);
    const own = CALLING.flatMap((factory) => factory(server, this.#context) ?? []);
    const lists: ListPolicy = (list, name) => offering.every((policy) => policy({ kind: KINDS[list], name }) === null);
    return { server, lists: offering.length === 0 ? null : lists, calling: [access, ...offering, ...own] };
  }
}
