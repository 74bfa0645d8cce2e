import { isDeepStrictEqual } from 'node:util';
import type { ConfigurationField, ServerChange } from '../model/configuration.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { sanitizedDefinition, sanitizedDescription } from '../model/sanitized-definition.ts';
import type { Server } from '../model/server.ts';
import type { ServersDiff } from '../model/servers-diff.ts';

type Names = Omit<ServersDiff, 'same'>;
type Shown = Readonly<Record<string, unknown>>;

/** The change of each server that differs, field by field as shown to people. */
export function serverChanges(before: DesiredState, after: DesiredState, names: Names): readonly ServerChange[] {
  const change = (kind: ServerChange['change']) => (server: string) => ({
    server,
    change: kind,
    fields: differences(shown(before.servers.get(server)), shown(after.servers.get(server))),
  });
  return [
    ...names.added.map(change('added')),
    ...names.removed.map(change('removed')),
    ...names.changed.map(change('restarted')),
    ...names.updated.map(change('updated')),
  ];
}

function differences(before: Shown, after: Shown): readonly ConfigurationField[] {
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return fields
    .filter((field) => !isDeepStrictEqual(before[field], after[field]))
    .map((field) => ({ field, before: json(before[field]), after: json(after[field]) }));
}

/** The definition for display, with values that JSON can represent. Secrets are masked. */
function shown(server: Server | undefined): Shown {
  if (server === undefined) return {};
  const { transport, timeoutMs, toolTimeoutMs, tools, description, enabled, start, isolation, replicas } = server;
  const { singleton, startupTimeoutMs, retry, trusted, cache, probeMs, drift, limits, misconfigured } = server;
  const { secrets, ...definition } = sanitizedDefinition(transport);
  const filter = { includeTools: tools.include && [...tools.include], excludeTools: [...tools.exclude] };
  const all = {
    type: transport.type,
    ...definition,
    description: description && sanitizedDescription(description, transport),
    ...{ enabled, start, isolation, replicas, singleton, timeoutMs, startupTimeoutMs, retry, trusted, cache, probeMs },
    ...{ drift, limits, misconfigured, ...filter },
    toolTimeoutMs: Object.fromEntries(toolTimeoutMs),
  };
  const plain = JSON.parse(JSON.stringify(all)) as Shown;
  return Object.fromEntries(Object.entries(plain).filter(([, value]) => !isEmpty(value)));
}

/** Whether the value is that of an omitted field. */
function isEmpty(value: unknown): boolean {
  return value === null || (typeof value === 'object' && Object.keys(value as object).length === 0);
}

function json(value: unknown): string | null {
  return value === undefined ? null : JSON.stringify(value);
}
