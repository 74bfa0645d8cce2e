import { whyWithheld } from '../../catalog/drift/guarded-catalog.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import { unavailable } from '../known-servers.ts';
import { type PolicyFactory, UNDECIDED } from './policy.ts';

/**
 * Refuses definitions that are not approved (docs/drift.md). Lists have the same view of the server, so listed items pass. For
 * a server that was not listed, refuses blocked names; under `hold` and `block`, the server is listed first.
 */
export const approved: PolicyFactory = ({ name: server, drift = 'off' }, { guards, upstreams }) => {
  if (drift === 'off') return null;
  return (target, { client }) => {
    const { kind, catalog } = target;
    if (kind === 'resource' || kind === 'server') return null;
    if (catalog === null) {
      const { name } = target;
      if (kind !== 'list' && typeof name === 'string' && guards.isBlocked(server, LISTS[kind], name)) {
        return kind === 'template' ? noTemplate(name) : quarantined(server, kind, name, whyWithheld('blocked'));
      }
      if (!guards.isClosed(server)) return null;
      return target.listed ? unavailable(upstreams, server, client) : UNDECIDED;
    }
    if (kind === 'list' || catalog.withheld === undefined) return null;
    const { name } = target;
    if (typeof name !== 'string') return name;
    if (kind === 'template') return hidesTemplate(catalog, name) ? noTemplate(name) : null;
    return whyUnapproved(catalog, kind, name);
  };
};

const LISTS = { tool: 'tools', prompt: 'prompts', template: 'resourceTemplates' } as const;

/** The refusal of a tool or prompt that is withheld; null for any other. */
export function whyWithheldName(catalog: ServerCatalog, kind: 'tool' | 'prompt', name: string): GatewayError | null {
  const why = catalog.withheld?.[LISTS[kind]].get(name);
  return why === undefined ? null : quarantined(catalog.server, kind, name, why);
}

/** The same; under `hold` and `block`, also for a name that the server does not list. */
function whyUnapproved(catalog: ServerCatalog, kind: 'tool' | 'prompt', name: string): GatewayError | null {
  const refused = whyWithheldName(catalog, kind, name);
  const only = catalog.withheld?.only ?? null;
  if (refused !== null || only === null || only[LISTS[kind]].has(name)) return refused;
  return quarantined(catalog.server, kind, name, 'has no approved definition');
}

/** Whether a template is withheld. Its completions are the server's text too; no reason is given. */
function hidesTemplate({ withheld }: ServerCatalog, uri: string): boolean {
  if (withheld === undefined) return false;
  const { resourceTemplates: hidden, only } = withheld;
  return hidden.has(uri) || (only !== null && uri.includes('{') && !only.resourceTemplates.has(uri));
}

function noTemplate(uri: string): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', `Resource not found: ${uri}`);
}

function quarantined(server: string, kind: 'tool' | 'prompt', name: string, why: string): GatewayError {
  return new GatewayError('QUARANTINED', `The ${kind} '${name}' of the server '${server}' ${why}`, { server });
}
