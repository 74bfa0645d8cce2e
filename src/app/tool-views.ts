import type { Catalog } from '../catalog/catalog.ts';
import { clientViews, estimatedTokens } from '../catalog/client-views.ts';
import { type ExposedItem, writeItems } from '../catalog/exposed-items.ts';
import { isLoginTool } from '../catalog/login-catalog.ts';
import type { ToolsPlane, ToolView } from '../control/control-plane.ts';
import type { HiddenTool } from '../control/tool-schemas.ts';
import type { Components } from './components.ts';

/** Returns the tools of all servers, for operators. */
export function toolsPlane(components: Components): ToolsPlane {
  const { gateway, operator, registry } = components;
  const catalogNow = (server: string | null, waitMs = Number.POSITIVE_INFINITY) =>
    gateway.catalog(operator.profile, Math.min(waitMs, registry.state.firstListWaitMs), server);
  return {
    async list(server, waitMs) {
      const catalog = await catalogNow(server, waitMs);
      const used = new Map<string, string>();
      for (const call of components.calls.last(Number.POSITIVE_INFINITY, ({ method }) => method === 'tools/call'))
        used.set(`${call.server} ${call.name}`, call.time);
      return {
        tools: offered(catalog)
          .filter(({ server: owner }) => server === null || owner === server)
          .map((tool) => ({
            ...toolView(catalog, tool),
            lastUsed: used.get(`${tool.server} ${tool.item.key}`) ?? null,
          })),
        notOffered: notOffered(catalog).filter(({ server: owner }) => server === null || owner === server),
      };
    },
    async listForClients(gatewayName, client) {
      const catalog = await catalogNow(null);
      const tools = offered(catalog).map((tool) => toolView(catalog, tool));
      return clientViews(tools, gatewayName, client);
    },
  };
}

function offered(catalog: Catalog): readonly ExposedItem[] {
  return catalog.items('tools').filter(({ server, item }) => !isLoginTool(catalog.catalogOf(server), item.key));
}

function toolView(catalog: Catalog, tool: ExposedItem): Omit<ToolView, 'lastUsed'> {
  const { exposed, server, item } = tool;
  const [sent] = writeItems('tools', [tool], catalog.members, 'stateful');
  const bytes = (sent ?? item.bytes).length;
  const renamed = catalog.notices.find((notice) => notice.exposed === exposed && notice.server === server);
  return {
    exposedName: exposed,
    server,
    name: item.key,
    renamed: renamed?.reason ?? null,
    bytes,
    tokens: estimatedTokens(bytes),
    definition: item.bytes.toString(),
  };
}

/** Returns the tools that servers list and clients do not get, with the reason. */
function notOffered(catalog: Catalog): HiddenTool[] {
  return catalog.members.flatMap(({ server, lists }) => {
    const known = catalog.catalogOf(server);
    if (known === null) return [];
    const withheld = known.withheld?.tools ?? new Map<string, string>();
    const hidden = [...withheld].map(([name, why]): HiddenTool => {
      return { server, name, state: 'withheld', reason: `it ${why}` };
    });
    for (const { key: name } of known.lists.tools.items) {
      if (withheld.has(name)) continue;
      if (lists?.('tools', name) === false) {
        hidden.push({ server, name, state: 'filtered', reason: 'includeTools or excludeTools leaves it out' });
        continue;
      }
      const notice = catalog.notices.find((one) => one.exposed === null && one.server === server && one.name === name);
      if (notice !== undefined) hidden.push({ server, name, state: 'unnamed', reason: notice.reason });
    }
    return hidden;
  });
}
