import { sameJson } from '../catalog/drift/same-value.ts';

/** The members of a tool that are compared (S4.8). */
export interface ToolMeta {
  readonly name: string;
  readonly description?: string;
  /** The schema as JSON text or as a value. Absent is the same as `null`. */
  readonly inputSchema?: unknown;
}

/** How two lists differ (S4.19). */
export type DriftKind = 'none' | 'added' | 'removed' | 'reordered' | 'structured';

export interface DriftReport {
  readonly kind: DriftKind;
  /** The tools that differ, or what differs of one, for people. Empty for `none`. */
  readonly message: string;
}

/** One change of a set of tools (S4.20). */
export interface ToolChange {
  readonly kind: 'tool_added' | 'tool_removed' | 'tool_schema_changed';
  readonly toolName: string;
}

const NONE: DriftReport = { kind: 'none', message: '' };

/**
 * How two lists of one server's tools differ (S4.19). Only the first of these is reported: a name occurs twice in a list
 * (`structured`); tools were added, removed, or reordered; the description or schema of a tool changed (`structured`, the first
 * such tool in the order of `before`). `null` equals the empty list. `capabilityDrift` reports all differences.
 */
export function compareToolLists(
  before: readonly ToolMeta[] | null | undefined,
  after: readonly ToolMeta[] | null | undefined,
): DriftReport {
  const [had, has] = [before ?? [], after ?? []];
  const twice = firstTwice(had) ?? firstTwice(has);
  if (twice !== null) return { kind: 'structured', message: `the tool name ${twice} occurs twice` };
  const [old, now] = [byName(had), byName(has)];
  const added = has.filter(({ name }) => !old.has(name));
  if (added.length > 0) return { kind: 'added', message: `added: ${namesOf(added)}` };
  const removed = had.filter(({ name }) => !now.has(name));
  if (removed.length > 0) return { kind: 'removed', message: `removed: ${namesOf(removed)}` };
  const moved = had.findIndex(({ name }, at) => has[at]!.name !== name);
  if (moved >= 0) return { kind: 'reordered', message: `reordered from ${had[moved]!.name} on` };
  for (const tool of had) {
    const change = changeOf(tool, now.get(tool.name)!);
    if (change !== null) return { kind: 'structured', message: `${tool.name}: its ${change} changed` };
  }
  return NONE;
}

/**
 * The changes of a set of tools with full names, sorted by name (S4.20). A new description counts as a change of the schema.
 * Order is ignored; of tools with the same name, the last one counts.
 */
export function toolChanges(before: readonly ToolMeta[], after: readonly ToolMeta[]): readonly ToolChange[] {
  const [old, now] = [byName(before), byName(after)];
  const changes: ToolChange[] = [];
  for (const name of now.keys()) if (!old.has(name)) changes.push({ kind: 'tool_added', toolName: name });
  for (const [name, tool] of old) {
    const current = now.get(name);
    if (current === undefined) changes.push({ kind: 'tool_removed', toolName: name });
    else if (changeOf(tool, current) !== null) changes.push({ kind: 'tool_schema_changed', toolName: name });
  }
  return changes.sort((a, b) => (a.toolName < b.toolName ? -1 : 1));
}

function changeOf(before: ToolMeta, after: ToolMeta): 'description' | 'input schema' | null {
  if ((before.description ?? '') !== (after.description ?? '')) return 'description';
  return sameJson(schemaText(before), schemaText(after)) ? null : 'input schema';
}

function schemaText({ inputSchema }: ToolMeta): string {
  if (typeof inputSchema === 'string') return inputSchema;
  return JSON.stringify(inputSchema ?? null) ?? '';
}

function byName(tools: readonly ToolMeta[]): ReadonlyMap<string, ToolMeta> {
  return new Map(tools.map((tool) => [tool.name, tool]));
}

function firstTwice(tools: readonly ToolMeta[]): string | null {
  const seen = new Set<string>();
  for (const { name } of tools) {
    if (seen.has(name)) return name;
    seen.add(name);
  }
  return null;
}

function namesOf(tools: readonly ToolMeta[]): string {
  return tools.map(({ name }) => name).join(', ');
}
