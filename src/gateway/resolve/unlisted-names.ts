import type { Catalog } from '../../catalog/catalog.ts';
import { type PrefixedTool, parsePrefixedTool, withoutBridgePrefix } from '../../catalog/exposed-names.ts';
import type { Principal } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { TOOL_NAME_DELIMITER } from '../../model/names.ts';
import { refuseAccess } from '../policy/access.ts';
import { whyWithheldName } from '../policy/approved.ts';
import type { Policies } from '../policy/policies.ts';

/**
 * For a name in no table: the server and tool it spells, if that is a server of which nothing is known yet. An error
 * when the caller may not use the server it spells, whether or not there is one.
 */
export function unlistedTool(
  name: string,
  catalog: Catalog,
  principal: Principal,
  policies: Policies,
): PrefixedTool | GatewayError | null {
  const spelled = spelledName(name, catalog);
  if (spelled === null) return null;
  const refused = refuseAccess(principal, spelled.server);
  if (refused !== null) return refused;
  const member = catalog.members.find(({ server }) => server === spelled.server);
  if (member === undefined || member.catalog !== null) return null;
  return policies.listsOf(spelled.server)?.('tools', spelled.tool) === false ? null : spelled;
}

/** What is wrong with a name that leads nowhere, in the seeds' words where they have some (S2.4, S2.31). */
export function unknownTool(name: string, catalog: Catalog, policies: Policies): GatewayError {
  const withheld = withheldName('tool', name, catalog, policies);
  if (withheld !== null) return withheld;
  const choices = catalog.choices('tools', name);
  if (choices.length > 1) {
    return new GatewayError('INVALID_PARAMS', `Unknown tool: ${name} (it could be ${choices.join(', ')})`);
  }
  const spelled = spelledName(name, catalog);
  if (spelled === null) {
    const message = `Invalid tool name: invalid tool name format: ${name} (expected agent__tool)`;
    return new GatewayError('INVALID_PARAMS', message);
  }
  if (!catalog.members.some(({ server }) => server === spelled.server)) {
    return new GatewayError('INVALID_PARAMS', `Unknown tool: ${name} (unknown agent: ${spelled.server})`);
  }
  return new GatewayError('INVALID_PARAMS', `Unknown tool: ${name}`, { server: spelled.server });
}

/** The refusal of a name that a server has and no client is offered; null for any other. */
export function withheldName(
  kind: 'tool' | 'prompt',
  name: string,
  catalog: Catalog,
  policies: Policies,
): GatewayError | null {
  const spelled = spelledName(name, catalog);
  const own = spelled === null ? name : spelled.tool;
  for (const { server, catalog: known } of catalog.members) {
    if (known === null || (spelled !== null && spelled.server !== server)) continue;
    if (policies.listsOf(server)?.(kind === 'tool' ? 'tools' : 'prompts', own) === false) continue;
    const refused = whyWithheldName(known, kind, own);
    if (refused !== null) return refused;
  }
  return null;
}

/** The server and its own name that a name of the aggregate spells, tool or prompt; null where it spells none. */
export function spelledName(name: string, catalog: Catalog): PrefixedTool | null {
  const plain = (catalog.bridged ? withoutBridgePrefix(name) : null) ?? name;
  return plain.includes(TOOL_NAME_DELIMITER) ? parsePrefixedTool(plain) : null;
}
