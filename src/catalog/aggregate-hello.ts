import type { Era } from '../model/message.ts';
import { STATEFUL_TASKS, TASKS_EXTENSION } from '../protocol/tasks/extension.ts';
import type { Catalog } from './catalog.ts';
import { type Declared, parseObject } from './catalog-member.ts';

/** Extensions that an aggregate can deliver: their methods are routed, or they have none. */
const UI = 'io.modelcontextprotocol/ui';

/**
 * The capabilities of an aggregate: what some member declares and the gateway delivers. `listChanged` is always
 * true, because the gateway tells of changes itself (S2.6). While nothing is known of a member, what it may turn out
 * to have is declared too: a session keeps the capabilities it was opened with.
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
  if (era === 'stateful') {
    if (hasTasks(catalog)) capabilities['tasks'] = JSON.parse(STATEFUL_TASKS);
  } else {
    const extensions = aggregateExtensions(catalog);
    if (Object.keys(extensions).length > 0) capabilities['extensions'] = extensions;
  }
  return JSON.stringify(capabilities);
}

/** The members' instructions, each under its server's name; null when none has any. */
export function aggregateInstructions(catalog: Catalog): string | null {
  const parts = catalog.members.flatMap(({ server, catalog: known }) => {
    const instructions = known?.hello.instructions?.trim() ?? '';
    return instructions === '' ? [] : [`# ${server}\n\n${instructions}`];
  });
  return parts.length === 0 ? null : parts.join('\n\n');
}

/** Whether a member has tasks, in the words of whichever era: between the two the gateway translates. */
function hasTasks(catalog: Catalog): boolean {
  return catalog.members.some(({ server }) => catalog.declared.get(server)?.tasks === true);
}

function aggregateExtensions(catalog: Catalog): Record<string, unknown> {
  const extensions: Record<string, unknown> = {};
  if (hasTasks(catalog)) extensions[TASKS_EXTENSION] = {};
  for (const { catalog: known } of catalog.members) {
    if (known === null) continue;
    const declared = parseObject(known.hello.capabilities)?.['extensions'];
    if (typeof declared !== 'object' || declared === null) continue;
    const ui = (declared as Record<string, unknown>)[UI];
    if (ui !== undefined) extensions[UI] ??= ui;
  }
  return extensions;
}
