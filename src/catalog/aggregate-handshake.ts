import { isObject } from '../model/json-object.ts';
import type { Era } from '../model/message.ts';
import { STATEFUL_TASKS, TASKS_EXTENSION } from '../protocol/tasks.ts';
import type { Catalog } from './catalog.ts';
import type { Declared } from './catalog-member.ts';

/** What the aggregate declares in its handshake. */
interface AggregateHandshake {
  readonly capabilities: string;
  readonly instructions: string | null;
}

const WRITTEN = {
  stateful: new WeakMap<Catalog, AggregateHandshake>(),
  stateless: new WeakMap<Catalog, AggregateHandshake>(),
};

/** Returns the handshake of the catalog, computed once per catalog and era. */
export function aggregateHandshake(catalog: Catalog, era: Era): AggregateHandshake {
  let written = WRITTEN[era].get(catalog);
  if (written === undefined) {
    written = { capabilities: aggregateCapabilities(catalog, era), instructions: aggregateInstructions(catalog) };
    WRITTEN[era].set(catalog, written);
  }
  return written;
}

/**
 * Every capability that a member declares and the gateway supports; `listChanged` always (S2.6). While a member was not listed,
 * prompts, resources, completions and logging are declared, because a session keeps its capabilities.
 */
export function aggregateCapabilities(catalog: Catalog, era: Era): string {
  const any = (declares: keyof Declared): boolean =>
    !catalog.complete || catalog.members.some(({ server }) => catalog.declared.get(server)?.[declares] === true);
  const capabilities: Record<string, unknown> = { tools: { listChanged: true } };
  if (any('prompts')) capabilities['prompts'] = { listChanged: true };
  if (any('resources')) {
    capabilities['resources'] = any('subscribe') ? { subscribe: true, listChanged: true } : { listChanged: true };
  }
  if (any('completions')) capabilities['completions'] = {};
  if (any('logging')) capabilities['logging'] = {};
  const extensions = union(catalog, 'extensions');
  delete extensions[TASKS_EXTENSION];
  const experimental = union(catalog, 'experimental');
  if (era === 'stateful') {
    if (hasTasks(catalog)) capabilities['tasks'] = JSON.parse(STATEFUL_TASKS);
    // As on a server's own endpoint: stateful revisions define `experimental` for extensions.
    Object.assign(experimental, { ...extensions, ...experimental });
  } else if (hasTasks(catalog)) {
    extensions[TASKS_EXTENSION] = {};
  }
  if (Object.keys(extensions).length > 0) capabilities['extensions'] = extensions;
  if (Object.keys(experimental).length > 0) capabilities['experimental'] = experimental;
  return JSON.stringify(capabilities);
}

/** The members' instructions, each under a heading with its server's name; null without any. */
export function aggregateInstructions(catalog: Catalog): string | null {
  const parts = catalog.members.flatMap(({ server, catalog: known }) => {
    const instructions = known?.handshake.instructions?.trim().toWellFormed() ?? '';
    return instructions === '' ? [] : [`# ${server}\n\n${instructions}`];
  });
  return parts.length === 0 ? null : parts.join('\n\n');
}

/** Whether a member declares tasks; the gateway translates them between the eras. */
function hasTasks(catalog: Catalog): boolean {
  return catalog.members.some(({ server }) => catalog.declared.get(server)?.tasks === true);
}

/** The declared settings by extension: those of the first member, extended by those of the others. */
function union(catalog: Catalog, place: 'extensions' | 'experimental'): Record<string, unknown> {
  const all: Record<string, unknown> = Object.create(null);
  for (const { server } of catalog.members) {
    for (const [id, settings] of Object.entries(catalog.declared.get(server)?.[place] ?? {})) {
      all[id] = id in all ? unionOf(all[id], settings) : settings;
    }
  }
  return all;
}

function unionOf(first: unknown, second: unknown): unknown {
  if (typeof first === 'boolean' && typeof second === 'boolean') return first || second;
  if (Array.isArray(first) && Array.isArray(second)) return [...new Set([...first, ...second])];
  if (!isObject(first) || !isObject(second)) return first;
  const all: Record<string, unknown> = { ...second, ...first };
  for (const key of Object.keys(second)) if (Object.hasOwn(first, key)) all[key] = unionOf(first[key], second[key]);
  return all;
}
