import type { CallExplanation, OfferedTools, PolicyVerdict, ServerAccess } from '../model/access.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import type { Message } from '../model/message.ts';
import type { Capability, ServerCatalog } from '../model/server-catalog.ts';
import { request } from '../protocol/compose.ts';
import type { CommonParts } from './common-parts.ts';
import { OwnExchange } from './own-exchange.ts';
import { Target } from './target.ts';

/** What callers may use, as the policies decide it for hypothetical calls that are never sent. */
export class AccessView {
  readonly #parts: Pick<CommonParts, 'upstreams' | 'policies'>;

  constructor(parts: Pick<CommonParts, 'upstreams' | 'policies'>) {
    this.#parts = parts;
  }

  /** The tools of all enabled servers. Reads memory only. */
  offered(client: ClientProfile): readonly OfferedTools[] {
    const { upstreams } = this.#parts;
    const enabled = upstreams.servers().filter((server) => server.enabled);
    return enabled.map(({ name: server }) => {
      const catalog = upstreams.knownCatalog(server, client, true);
      return { server, listed: catalog !== null, tools: catalog === null ? [] : [...toolNames(catalog)].sort() };
    });
  }

  /** The rights of one caller at each of these servers. */
  of(client: ClientProfile, servers: readonly OfferedTools[]): readonly ServerAccess[] {
    return servers.map(({ server, tools }) => {
      const catalog = this.#parts.upstreams.knownCatalog(server, client, true);
      const known = new Map(catalog?.lists.tools.items.map((tool) => [tool.key, tool]));
      const whole = refusal(this.#explain(server, '', client, null));
      if (whole?.policy === 'access') return { server, refusal: whole, allowed: 0, refused: [] };
      const refused = tools.flatMap((tool) => {
        const why = refusal(this.#explain(server, tool, client, catalog, known.get(tool)));
        return why === null ? [] : [{ tool, ...why }];
      });
      return { server, refusal: null, allowed: tools.length - refused.length, refused };
    });
  }

  explain(server: string, tool: string, client: ClientProfile): CallExplanation {
    const catalog = this.#parts.upstreams.knownCatalog(server, client, true);
    const verdicts = this.#explain(server, tool, client, catalog);
    const decidedBy = refusal(verdicts)?.policy ?? null;
    return {
      principal: client.principal.id,
      server,
      tool,
      known: catalog !== null && toolNames(catalog).has(tool),
      allowed: decidedBy === null,
      decidedBy,
      verdicts,
    };
  }

  #explain(
    server: string,
    tool: string,
    client: ClientProfile,
    catalog: ServerCatalog | null,
    definition?: Capability,
  ): readonly PolicyVerdict[] {
    const exchange = new HypotheticalCall('why', CALL, client);
    const target = new Target(client.principal, server, 'tool', CALL, catalog, tool, null, definition);
    return this.#parts.policies.explain(target, exchange);
  }
}

const CALL: Message = request('tools/call', '0', '{}', 'stateful');

class HypotheticalCall extends OwnExchange {
  readonly hypothetical = true;
}

/** The names of all listed tools, withheld ones included. */
function toolNames({ lists, withheld }: ServerCatalog): ReadonlySet<string> {
  return new Set([...lists.tools.items.map(({ key }) => key), ...(withheld?.tools.keys() ?? [])]);
}

function refusal(verdicts: readonly PolicyVerdict[]) {
  const { policy, verdict, code, reason } = verdicts.at(-1)!;
  return verdict === 'refused' ? { policy, code: code!, reason: reason! } : null;
}
