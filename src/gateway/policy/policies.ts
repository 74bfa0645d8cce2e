import type { ListPolicy } from '../../catalog/catalog-member.ts';
import type { PolicyName, PolicyVerdict } from '../../model/access.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Server } from '../../model/server.ts';
import type { Target } from '../target.ts';
import { access } from './access.ts';
import { approved } from './approved.ts';
import { paramHeaders } from './param-headers.ts';
import { type OfferPolicy, type Policy, type PolicyContext, type PolicyFactory, UNDECIDED } from './policy.ts';
import { rateLimit } from './rate-limit.ts';
import { toolFilter } from './tool-filter.ts';

/** Policies that decide what a server offers: lists evaluate them for each item. */
const OFFERING: readonly (readonly [PolicyName, PolicyFactory<OfferPolicy>])[] = [['toolFilter', toolFilter]];
/** Further policies of calls, in evaluation order. */
const CALLING: readonly (readonly [PolicyName, PolicyFactory])[] = [
  ['approved', approved],
  ['paramHeaders', paramHeaders],
  ['rateLimit', rateLimit],
];

const KINDS = { tools: 'tool', prompts: 'prompt', resources: 'resource', resourceTemplates: 'template' } as const;

interface ServerPolicies {
  readonly server: Server;
  /** Whether an item is in the lists of the server; null if all are. */
  readonly lists: ListPolicy | null;
  /** All policies of calls to the server. */
  readonly calling: readonly Policy[];
  /** The names of `calling`, in the same order. */
  readonly names: readonly PolicyName[];
}

/** The policies of a server that does not exist or is disabled: sending to it fails later. */
const UNKNOWN: Pick<ServerPolicies, 'calling' | 'names'> = { calling: [access], names: ['access'] };

/**
 * Evaluates the policies of every request before it is sent: one list per server, composed when the set of servers is replaced.
 * A server that did not change keeps its policies and their counters.
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

  /** The first refusal; null if all policies admit the target. */
  admit(target: Target, exchange: Exchange): GatewayError | typeof UNDECIDED | null {
    if (target.admitted) return null;
    for (const policy of this.#of(target.server)?.calling ?? UNKNOWN.calling) {
      const refused = policy(target, exchange);
      if (refused !== null) return refused;
    }
    target.admitted = true;
    return null;
  }

  /**
   * The verdict of each policy about a call that is not made, up to the first refusal. The exchange must be `hypothetical`, so
   * that nothing is counted.
   */
  explain(target: Target, exchange: Exchange): readonly PolicyVerdict[] {
    const { calling, names } = this.#of(target.server) ?? UNKNOWN;
    const verdicts: PolicyVerdict[] = [];
    for (const [i, policy] of calling.entries()) {
      const refused = policy(target, exchange);
      const error = refused instanceof GatewayError ? refused : null;
      const verdict = error !== null ? 'refused' : refused === UNDECIDED ? 'undecided' : 'passed';
      verdicts.push({ policy: names[i]!, verdict, code: error?.code ?? null, reason: error?.message ?? null });
      if (error !== null) break;
    }
    return verdicts;
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
    const offering = made(OFFERING, server, this.#context);
    const all = [['access', access] as const, ...offering, ...made(CALLING, server, this.#context)];
    const lists: ListPolicy = (list, name) =>
      offering.every(([, policy]) => policy({ kind: KINDS[list], name }) === null);
    return {
      server,
      lists: offering.length === 0 ? null : lists,
      calling: all.map(([, policy]) => policy),
      names: all.map(([name]) => name),
    };
  }
}

/** The policies that apply to the server. */
function made<P>(
  factories: readonly (readonly [PolicyName, PolicyFactory<P>])[],
  server: Server,
  context: PolicyContext,
): readonly (readonly [PolicyName, P])[] {
  return factories.flatMap(([name, factory]) => {
    const policy = factory(server, context);
    return policy === null ? [] : [[name, policy] as const];
  });
}
