import { whyWithheld } from '../../catalog/drift/guarded-catalog.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';

/** A tool or prompt of the server whose definition is not approved, so that no client may use it; null for any other. */
export function refuseWithheld(catalog: ServerCatalog, list: 'tools' | 'prompts', name: string): GatewayError | null {
  const why = catalog.withheld?.[list].get(name);
  return why === undefined ? null : quarantined(catalog.server, list, name, why);
}

/** As `refuseWithheld`; where only what was approved may be used, also what the server has never listed. */
export function refuseUnapproved(catalog: ServerCatalog, list: 'tools' | 'prompts', name: string): GatewayError | null {
  const { withheld } = catalog;
  if (withheld === undefined) return null;
  const refused = refuseWithheld(catalog, list, name);
  if (refused !== null || withheld.only === null || withheld.only[list].has(name)) return refused;
  return quarantined(catalog.server, list, name, 'has no approved definition');
}

/**
 * Whether completions for this template, or URI, reach nobody: what they suggest is as much the server's words as the template
 * is. It is as if there were no such template, and no reason is told.
 */
export function hidesTemplate({ withheld }: ServerCatalog, uri: string): boolean {
  if (withheld === undefined) return false;
  const { resourceTemplates: hidden, only } = withheld;
  return hidden.has(uri) || (only !== null && uri.includes('{') && !only.resourceTemplates.has(uri));
}

/** A name that the operator blocked, of a server of which nothing else is known. */
export function blocked(server: string, list: 'tools' | 'prompts', name: string): GatewayError {
  return quarantined(server, list, name, whyWithheld('blocked'));
}

function quarantined(server: string, list: 'tools' | 'prompts', name: string, why: string): GatewayError {
  const what = list === 'tools' ? 'tool' : 'prompt';
  return new GatewayError('QUARANTINED', `The ${what} '${name}' of the server '${server}' ${why}`, { server });
}
